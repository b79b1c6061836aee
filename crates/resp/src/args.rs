//! The arguments of a command, as slices of the received bytes.

/// The span of one argument: start and end (exclusive), counted from the first byte of the command.
pub(crate) type ArgumentSpan = (u32, u32);

/// The arguments of a command, or some of them: slices of the received bytes.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Ranges { bytes: &'a [u8], spans: &'a [ArgumentSpan] },
    Slices(&'a [&'a [u8]]),
}

impl<'a> Args<'a> {
    /// Arguments that are not contiguous in memory.
    #[must_use]
    pub fn of(slices: &'a [&'a [u8]]) -> Args<'a> {
        Args(Form::Slices(slices))
    }

    /// Arguments within a command. All spans are within the bytes.
    pub(crate) fn within(bytes: &'a [u8], spans: &'a [ArgumentSpan]) -> Args<'a> {
        Args(Form::Ranges { bytes, spans })
    }

    /// The number of arguments.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Ranges { spans, .. } => spans.len(),
            Form::Slices(slices) => slices.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The argument with this index; empty if there is none.
    #[must_use]
    #[inline]
    pub fn at(&self, place: usize) -> &'a [u8] {
        self.get(place).unwrap_or(&[])
    }

    /// The argument with this index.
    #[must_use]
    #[inline]
    pub fn get(&self, place: usize) -> Option<&'a [u8]> {
        match self.0 {
            Form::Ranges { bytes, spans } => {
                spans.get(place).and_then(|&(from, to)| bytes.get(from as usize..to as usize))
            }
            Form::Slices(slices) => slices.get(place).copied(),
        }
    }

    /// The arguments `from..to`, as far as they exist.
    #[must_use]
    pub fn part(&self, from: usize, to: usize) -> Args<'a> {
        let to = to.min(self.len());
        let from = from.min(to);
        Args(match self.0 {
            Form::Ranges { bytes, spans } => Form::Ranges { bytes, spans: &spans[from..to] },
            Form::Slices(slices) => Form::Slices(&slices[from..to]),
        })
    }

    /// The arguments from an index on.
    #[must_use]
    pub fn from(&self, from: usize) -> Args<'a> {
        self.part(from, self.len())
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let all = *self;
        (0..all.len()).map(move |place| all.at(place))
    }

    /// Whether the argument with this index is this word, in upper or lower case.
    #[must_use]
    pub fn is(&self, place: usize, word: &str) -> bool {
        self.get(place).is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
    }
}

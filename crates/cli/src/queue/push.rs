//! `zerohop queue push`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use zerohop_layer_queue::{MESSAGE_BYTES_MAX, NewMessage, QueueError, keys};
use zerohop_queue_client::QueueProducer;
use zerohop_wire::plurals::{by_number, counted};

use super::place::{QueuePlace, millis, queue_name};
use super::refusal::{CommandUse, QueueRefusal, failed, print_refusal};
use crate::blob::progress::BlobProgress;
use crate::common::ending::{CommandEnding, CommandError};
use crate::common::{interrupt, lines, quantity};
use crate::output;

#[derive(Args, Debug)]
pub(crate) struct QueuePushArguments {
    /// The queue.
    #[arg(value_name = "NAME", value_parser = queue_name)]
    pub(super) name: String,
    /// The messages [default: the lines of standard input]. A message that begins with a hyphen comes after `--`.
    #[arg(value_name = "MESSAGE")]
    messages: Vec<OsString>,
    /// The group of the messages. Messages of a group are popped in the order of their pushes, one at a time.
    #[arg(long, value_name = "GROUP", allow_hyphen_values = true)]
    group: Option<String>,
    /// The name of the message, of which there is one: while the name counts, another message of this name in the group is
    /// not pushed.
    #[arg(long = "name", value_name = "MESSAGE_NAME", allow_hyphen_values = true)]
    message_name: Option<String>,
    /// How long the messages cannot be popped.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    delay: Duration,
    #[command(flatten)]
    pub(super) place: QueuePlace,
}

/// The JSON of messages that were pushed together.
#[derive(Serialize)]
struct QueuePushOutput<'a> {
    queue: &'a str,
    done: bool,
    /// How many were pushed.
    messages: u64,
    /// How many were not pushed because of their names.
    duplicates: u64,
    /// Those of the messages, or of the earlier messages of their names.
    ids: Vec<String>,
}

/// Pushes messages, and counts them.
struct Pusher {
    producer: QueueProducer,
    group: Option<String>,
    message_name: Option<String>,
    delay: u64,
    messages: u64,
    duplicates: u64,
    progress: BlobProgress,
}

/// Why messages are not pushed.
enum PushFailure {
    Command(CommandError),
    Queue(QueueError),
}

impl From<CommandError> for PushFailure {
    fn from(error: CommandError) -> Self {
        Self::Command(error)
    }
}

impl From<QueueError> for PushFailure {
    fn from(error: QueueError) -> Self {
        Self::Queue(error)
    }
}

pub(super) async fn run(arguments: QueuePushArguments) -> Result<CommandEnding, CommandError> {
    let QueuePushArguments { name, messages, group, message_name, delay, place } = arguments;
    let has_name = message_name.is_some();
    if has_name && messages.len() > 1 {
        return Err(one_message());
    }
    let queue = match place.open(&name).await? {
        Ok(queue) => queue,
        Err(refusal) => return refusal.print(place.json, &name),
    };
    if let Err(error) =
        group.iter().chain(&message_name).try_for_each(|name| keys::check_name(name).map(drop))
    {
        return print_refusal(place.json, &name, CommandUse::Write, error);
    }
    let mut pusher = Pusher {
        producer: QueueProducer::new(queue),
        group,
        message_name,
        delay: millis(delay),
        messages: 0,
        duplicates: 0,
        progress: BlobProgress::new("pushed", None),
    };
    let pushed = if messages.is_empty() {
        lines::prompt("message");
        pusher.push_lines(&place, &name, has_name).await
    } else {
        let messages = messages.into_iter().map(OsString::into_vec).collect();
        pusher.push(&place, &name, messages).await
    };
    match pushed {
        Ok(()) => {}
        Err(PushFailure::Command(error)) => return Err(error),
        Err(PushFailure::Queue(error)) => return pusher.failed(&place, &name, error),
    }
    if !place.json {
        output::note_done(output::WRITE);
        output::result(&pusher.sentence())?;
    } else if pusher.messages + pusher.duplicates == 0 {
        output::json(&QueuePushOutput {
            queue: &name,
            done: true,
            messages: 0,
            duplicates: 0,
            ids: Vec::new(),
        })?;
    }
    Ok(CommandEnding::Done)
}

fn one_message() -> CommandError {
    CommandError::Usage("--name is for one message: push each message with a name of its own".to_owned())
}

impl Pusher {
    /// Pushes the lines of standard input, as they come.
    async fn push_lines(
        &mut self,
        place: &QueuePlace,
        name: &str,
        is_single: bool,
    ) -> Result<(), PushFailure> {
        let mut groups = lines::of_standard_input(MESSAGE_BYTES_MAX);
        let mut single = Vec::new();
        while let Some(lines) = groups.recv().await {
            let mut lines = lines?;
            if is_single {
                single.append(&mut lines);
                if single.len() > 1 {
                    return Err(one_message().into());
                }
                continue;
            }
            // The messages before one that is too long are pushed.
            let fitting = lines.iter().position(|line| line.len() > MESSAGE_BYTES_MAX).unwrap_or(lines.len());
            let rest = lines.split_off(fitting);
            self.push(place, name, lines).await?;
            if let Some(long) = rest.first() {
                return Err(QueueError::MessageTooLong { bytes: long.len() }.into());
            }
        }
        self.push(place, name, single).await
    }

    /// Pushes messages together.
    async fn push(
        &mut self,
        place: &QueuePlace,
        name: &str,
        values: Vec<Vec<u8>>,
    ) -> Result<(), PushFailure> {
        if values.is_empty() {
            return Ok(());
        }
        let bytes = values.iter().map(Vec::len).sum();
        let message = |value| NewMessage {
            value,
            group: self.group.clone(),
            name: self.message_name.clone(),
            delay: self.delay,
        };
        let messages: Vec<NewMessage> = values.into_iter().map(message).collect();
        let until = place.until(self.producer.queue());
        interrupt::note_sent(output::WRITE);
        let (ids, duplicates) = self.producer.push(messages, until).await?;
        let (pushed, duplicates) = ((ids.len() - duplicates) as u64, duplicates as u64);
        self.messages += pushed;
        self.duplicates += duplicates;
        self.progress.add(bytes);
        if place.json {
            output::note_done(output::WRITE);
            let ids = ids.iter().map(ToString::to_string).collect();
            output::json(&QueuePushOutput { queue: name, done: true, messages: pushed, duplicates, ids })?;
        }
        Ok(())
    }

    fn sentence(&self) -> String {
        let mut text = format!("{} pushed", counted(self.messages, "message"));
        if self.duplicates > 0 {
            let names = by_number(self.duplicates, "its name", "their names");
            text += &format!(", {} not pushed because of {names}", self.duplicates);
        }
        text
    }

    /// The ending after an error. Messages before it may be pushed.
    fn failed(
        &self,
        place: &QueuePlace,
        name: &str,
        error: QueueError,
    ) -> Result<CommandEnding, CommandError> {
        match error {
            // The input is read only so far, so its length is not known.
            QueueError::MessageTooLong { .. } => {
                let text = format!("a message has more than {MESSAGE_BYTES_MAX} bytes; {}", self.sentence());
                QueueRefusal::new("too_long", text).print(place.json, name)
            }
            error if self.messages > 0 => {
                let error = failed(CommandUse::Write, &error);
                Err(CommandError::Partly(format!("{error}; before it, {}", self.sentence())))
            }
            error => print_refusal(place.json, name, CommandUse::Write, error),
        }
    }
}

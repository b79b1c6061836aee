//! The place that an operation on objects is about.

/// A bucket, or an object in it.
#[derive(Clone, Debug)]
pub(crate) struct ObjectPlace {
    pub(crate) bucket: String,
    pub(crate) name: Option<String>,
}

impl ObjectPlace {
    pub(crate) fn of_bucket(bucket: &str) -> Self {
        Self { bucket: bucket.to_owned(), name: None }
    }

    /// The bucket and the name of an object.
    pub(crate) fn path(&self) -> (String, Vec<u8>) {
        (self.bucket.clone(), self.name.clone().unwrap_or_default().into_bytes())
    }

    /// What an exception says of it.
    pub(crate) fn sentence(&self) -> String {
        match &self.name {
            None => format!("bucket \"{}\"", self.bucket),
            Some(name) => format!("object \"{name}\" of bucket \"{}\"", self.bucket),
        }
    }
}

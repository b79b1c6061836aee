//! The multipart uploads of gateways: several gateways may write parts of one upload while another completes it.

use zerohop_objects::{
    BodyId, CompleteUpload, CopyPart, CreateUpload, NamedPart, ObjectError, PutPart, SetId, Store,
    abort_upload, copy_part, create_upload, put_part, run, stage_part,
};

use crate::gateway::{Gateway, LIFETIMES, PLAIN};
use crate::history::{OpenUpload, contents_of, etag};
use crate::register::Action;

/// The parts of an upload have numbers up to this.
const PARTS: u64 = 3;
/// Uploads that are open at a time.
const OPEN_MAX: usize = 3;

impl Gateway {
    pub(crate) async fn operate_upload(&mut self, target: (String, Vec<u8>)) {
        let upload = {
            let history = self.history.lock();
            let count = history.uploads.len();
            let place = self.client.random.below(count.max(1) as u64) as usize;
            history.uploads.get(place).cloned().filter(|_| count >= OPEN_MAX || place > 0 || count == 1)
        };
        let Some(upload) = upload else { return self.create_upload(target).await };
        if upload.is_completing {
            // So that a part meets the completion.
            return self.copy_part(upload).await;
        }
        match self.client.random.below(10) {
            0..=3 => self.put_part(upload).await,
            4..=5 => self.copy_part(upload).await,
            6..=8 if !upload.is_completing && !upload.parts.is_empty() => self.complete(upload).await,
            9 if self.client.random.chance(1, 2) => {
                let result = run(&self.store, abort_upload(upload.target, upload.id)).await;
                self.count("abort", &result);
                self.forget(upload.id, &result);
            }
            _ => self.put_part(upload).await,
        }
    }

    /// An upload is over, if its end is known.
    fn forget<T>(&self, id: SetId, result: &Result<T, ObjectError>) {
        if matches!(result, Ok(_) | Err(ObjectError::NoSuchUpload | ObjectError::Unavailable(_))) {
            self.history.lock().uploads.retain(|upload| upload.id != id);
        }
    }

    async fn create_upload(&mut self, target: (String, Vec<u8>)) {
        let (id, token) = (SetId(self.store.random()), self.history.lock().new_token());
        let create = CreateUpload {
            target: target.clone(),
            id,
            checksum_algorithm: 0,
            is_composite: false,
            attributes: Self::attributes(token),
            tags: Vec::new(),
        };
        let result = run(&self.store, create_upload(create)).await;
        self.count("upload", &result);
        if result.is_ok() {
            let parts = Default::default();
            let upload = OpenUpload { target, id, token, parts, is_completing: false };
            self.history.lock().uploads.push(upload);
        }
    }

    /// A part has new contents. Those of a part whose outcome is unknown are not known, so that its upload is completed without it.
    fn part_ends<T>(&self, id: SetId, number: u16, contents: Option<u64>, result: &Result<T, ObjectError>) {
        let mut history = self.history.lock();
        if let Some(upload) = history.uploads.iter_mut().find(|upload| upload.id == id) {
            match (result, contents) {
                (Ok(_), Some(contents)) => drop(upload.parts.insert(number, contents)),
                (Err(ObjectError::Unavailable(_)), _) => drop(upload.parts.remove(&number)),
                _ => {}
            }
        }
    }

    async fn put_part(&mut self, upload: OpenUpload) {
        let number = 1 + self.client.random.below(PARTS) as u16;
        let (contents, bytes) = self.new_contents();
        let body = BodyId { set: upload.id, number: 2 + contents };
        let staged = run(&self.store, stage_part(upload.target.clone(), body, LIFETIMES)).await;
        let Ok((_, until)) = staged else { return self.forget(upload.id, &staged) };
        if !self.write_body(body, &bytes, until).await {
            return;
        }
        self.rest_before_commit().await;
        let put = PutPart {
            target: upload.target,
            body,
            number,
            size: bytes.len() as u64,
            etag: etag(contents),
            checksum: None,
            lifetimes: LIFETIMES,
        };
        let result = run(&self.store, put_part(put)).await;
        self.count("part", &result);
        self.part_ends(upload.id, number, Some(contents), &result);
    }

    async fn copy_part(&mut self, upload: OpenUpload) {
        let number = 1 + self.client.random.below(PARTS) as u16;
        let source = self.draw_target();
        let history = self.history.clone();
        let copy = CopyPart {
            source,
            source_version: None,
            range: None,
            check_source: Box::new(|_| Ok(())),
            describe: Box::new(move |object, from, length| {
                let mut history = history.lock();
                let bytes = history.bytes(contents_of(&object.etag));
                let to = (from + length) as usize;
                let bytes = bytes.get(from as usize..to).unwrap_or_default().to_vec();
                (etag(history.new_contents(bytes)), None)
            }),
            target: upload.target,
            upload: upload.id,
            number,
            lifetimes: LIFETIMES,
        };
        let result = run(&self.store, copy_part(copy)).await;
        self.count("part copy", &result);
        let contents = result.as_ref().ok().map(|part| contents_of(&part.etag));
        self.part_ends(upload.id, number, contents, &result);
    }

    /// Completes an upload, at most once: some parts are left out.
    async fn complete(&mut self, upload: OpenUpload) {
        let (parts, contents) = {
            let mut history = self.history.lock();
            let found = history.uploads.iter_mut().find(|one| one.id == upload.id && !one.is_completing);
            let Some(found) = found else { return };
            found.is_completing = true;
            let mut parts = found.parts.clone();
            if parts.len() > 1 && self.client.random.chance(1, 2) {
                parts.pop_first();
            }
            let bytes = parts.values().flat_map(|part| history.bytes(*part).to_vec()).collect();
            let contents = history.new_contents(bytes);
            history.token_has(upload.token, contents);
            (parts, contents)
        };
        let (requires, conditions) = self.draw_condition(&upload.target).await;
        let named = parts.iter().map(|(number, part)| NamedPart {
            number: *number,
            etag: Some(etag(*part).to_string()),
            checksum: None,
        });
        let complete = CompleteUpload {
            target: upload.target.clone(),
            id: upload.id,
            parts: named.collect(),
            part_size_min: 0,
            assemble: Box::new(move |_, _| Ok((etag(contents), None))),
            conditions,
            lifetimes: LIFETIMES,
        };
        let action = Action::Write { token: upload.token, requires };
        let call = self.begins(&upload.target, &action);
        let result = run(&self.store, complete.start()).await;
        self.write_ends(&upload.target, call, (action, requires), &result);
        self.count(if upload.target.0 == PLAIN { "completion" } else { "other completion" }, &result);
        self.forget(upload.id, &result);
    }
}

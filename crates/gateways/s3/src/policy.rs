//! Policies of buckets, of which the gateway supports public reading.

mod json;

use self::json::Json;

/// The setting of a bucket: the text of its policy, as it was put.
pub(crate) const SETTING: &str = "policy";
/// The most bytes of a policy.
pub(crate) const BYTES_MAX: usize = 20 << 10;

/// What a refusal of a policy says beside its reason.
const SUPPORTED: &str = "Policies are supported that let all clients read: Effect Allow, Principal \"*\", the actions \
    s3:GetObject, s3:GetObjectVersion and s3:ListBucket, the resources arn:aws:s3:::BUCKET, BUCKET/* and \
    BUCKET/PREFIX*, and no Condition.";

/// Something that a policy permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublicAction {
    /// Reads of current objects.
    GetObject,
    /// Reads of versions by their ids.
    GetObjectVersion,
    /// Listings of the bucket.
    ListBucket,
}

/// Why a text is no policy that the gateway supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyFault {
    /// It is no policy.
    Malformed(String),
    /// It is a policy that says more than the gateway supports.
    Unsupported(String),
}

/// What all clients may do in a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicPolicy {
    lists: bool,
    /// The beginnings of the names of objects whose current version is public.
    objects: Vec<String>,
    /// The beginnings of the names of objects all of whose versions are public.
    versions: Vec<String>,
}

/// A resource of a statement.
enum PolicyResource {
    Bucket,
    /// All objects whose names begin with this.
    Objects(String),
}

fn malformed<T>(why: impl Into<String>) -> Result<T, PolicyFault> {
    Err(PolicyFault::Malformed(why.into()))
}

fn unsupported<T>(what: &str) -> Result<T, PolicyFault> {
    Err(PolicyFault::Unsupported(format!("{what} is not supported. {SUPPORTED}")))
}

/// The policy by which all clients may list a bucket and read its objects.
pub(crate) fn public_read(bucket: &str) -> String {
    format!(
        "{{\"Version\":\"2012-10-17\",\"Statement\":[{{\"Effect\":\"Allow\",\"Principal\":\"*\",\
         \"Action\":[\"s3:GetObject\",\"s3:ListBucket\"],\
         \"Resource\":[\"arn:aws:s3:::{bucket}\",\"arn:aws:s3:::{bucket}/*\"]}}]}}"
    )
}

impl PublicPolicy {
    /// Reads the policy of a bucket.
    ///
    /// # Errors
    /// The text is no policy, or one that is not supported.
    pub(crate) fn read(text: &str, bucket: &str) -> Result<Self, PolicyFault> {
        if text.len() > BYTES_MAX {
            return malformed("The policy is above 20 KiB.");
        }
        let document =
            Json::read(text).or_else(|error| malformed(format!("The policy is no JSON: {error}")))?;
        let Json::Map(fields) = document else { return malformed("The policy is no object of JSON.") };
        let mut statements = None;
        for (name, value) in &fields {
            match (&name[..], value) {
                ("Version", Json::Text(version)) if ["2012-10-17", "2008-10-17"].contains(&&version[..]) => {}
                ("Id", Json::Text(_)) => {}
                ("Statement", value) => statements = Some(value),
                _ => return malformed(format!("The policy has an unknown or wrong field {name:?}.")),
            }
        }
        let mut policy = Self::default();
        match statements {
            Some(Json::List(statements)) if !statements.is_empty() => {
                statements.iter().try_for_each(|statement| policy.add(statement, bucket))?;
            }
            Some(statement @ Json::Map(_)) => policy.add(statement, bucket)?,
            _ => return malformed("The policy has no statements."),
        }
        Ok(policy)
    }

    /// Whether all clients may do this to an object; its name is empty for a listing.
    pub(crate) fn permits(&self, action: PublicAction, name: &str) -> bool {
        let covers =
            |beginnings: &[String]| beginnings.iter().any(|beginning| name.starts_with(&beginning[..]));
        match action {
            PublicAction::ListBucket => self.lists,
            PublicAction::GetObject => covers(&self.objects),
            PublicAction::GetObjectVersion => covers(&self.versions),
        }
    }

    fn add(&mut self, statement: &Json, bucket: &str) -> Result<(), PolicyFault> {
        let Json::Map(fields) = statement else { return malformed("A statement is no object of JSON.") };
        let (mut effect, mut principal) = (None, None);
        let (mut actions, mut resources) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            match (&name[..], value) {
                ("Sid", Json::Text(_)) => {}
                ("Effect", value) => effect = value.text(),
                ("Principal", value) => principal = Some(value),
                ("Action", value) => actions = value.texts().into_iter().flatten().collect(),
                ("Resource", value) => resources = value.texts().into_iter().flatten().collect(),
                ("Condition" | "NotPrincipal" | "NotAction" | "NotResource", _) => return unsupported(name),
                _ => return malformed(format!("A statement has an unknown or wrong field {name:?}.")),
            }
        }
        match effect {
            Some("Allow") => {}
            Some("Deny") => return unsupported("Effect Deny"),
            _ => return malformed("A statement needs Effect, which is Allow."),
        }
        check_principal(principal)?;
        let actions = actions.into_iter().map(action).collect::<Result<Vec<_>, _>>()?;
        let resources =
            resources.into_iter().map(|one| resource(one, bucket)).collect::<Result<Vec<_>, _>>()?;
        if actions.is_empty() || resources.is_empty() {
            return malformed("A statement needs Action and Resource.");
        }
        actions.into_iter().try_for_each(|action| self.grant(action, &resources))
    }

    /// Permits an action for the resources that it is for; there must be one.
    fn grant(&mut self, action: PublicAction, resources: &[PolicyResource]) -> Result<(), PolicyFault> {
        let mut applies = false;
        for resource in resources {
            match (action, resource) {
                (PublicAction::ListBucket, PolicyResource::Bucket) => self.lists = true,
                (PublicAction::GetObject, PolicyResource::Objects(name)) => self.objects.push(name.clone()),
                (PublicAction::GetObjectVersion, PolicyResource::Objects(name)) => {
                    self.versions.push(name.clone());
                }
                _ => continue,
            }
            applies = true;
        }
        if applies { Ok(()) } else { malformed("Action does not apply to any resource(s) in statement") }
    }
}

/// Checks that a principal is all clients.
fn check_principal(principal: Option<&Json>) -> Result<(), PolicyFault> {
    let named = match principal {
        None => return malformed("A statement needs Principal."),
        Some(Json::Map(kinds)) => {
            let (kind, named) = match &kinds[..] {
                [] => return malformed("Invalid principal in policy"),
                [(kind, named)] => (kind, named),
                _ => return unsupported("A Principal of several kinds"),
            };
            if kind != "AWS" {
                return unsupported(&format!("The Principal {kind:?}"));
            }
            named.texts()
        }
        Some(named) => named.text().map(|one| vec![one]),
    };
    match named.as_deref() {
        Some(["*"]) => Ok(()),
        Some([_, ..]) => unsupported("A Principal other than \"*\""),
        Some([]) | None => malformed("Invalid principal in policy"),
    }
}

fn action(text: &str) -> Result<PublicAction, PolicyFault> {
    match text {
        "s3:GetObject" => Ok(PublicAction::GetObject),
        "s3:GetObjectVersion" => Ok(PublicAction::GetObjectVersion),
        "s3:ListBucket" => Ok(PublicAction::ListBucket),
        _ if text == "*" || text.starts_with("s3:") => unsupported(&format!("The action {text:?}")),
        _ => malformed("Policy has invalid action"),
    }
}

fn resource(text: &str, bucket: &str) -> Result<PolicyResource, PolicyFault> {
    let named = text.strip_prefix("arn:aws:s3:::").and_then(|rest| rest.strip_prefix(bucket));
    let name = match named {
        Some("") => return Ok(PolicyResource::Bucket),
        Some(rest) if rest.starts_with('/') => &rest[1..],
        _ => return malformed("Policy has invalid resource"),
    };
    match name.strip_suffix('*') {
        Some(beginning) if !beginning.contains(['*', '?']) && !beginning.contains("${") => {
            Ok(PolicyResource::Objects(beginning.to_owned()))
        }
        _ => unsupported(&format!("The resource {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::PublicAction::{GetObject, GetObjectVersion, ListBucket};
    use super::*;

    const BUCKET: &str = "arn:aws:s3:::b";

    fn statement(principal: &str, action: &str, resource: &str) -> String {
        format!(
            "{{\"Effect\":\"Allow\",\"Principal\":{principal},\"Action\":{action},\"Resource\":{resource}}}"
        )
    }

    fn document(statements: &str) -> String {
        format!("{{\"Version\":\"2012-10-17\",\"Statement\":{statements}}}")
    }

    fn read(text: &str) -> Result<PublicPolicy, PolicyFault> {
        PublicPolicy::read(text, "b")
    }

    #[test]
    fn policy_permits_what_it_names_and_nothing_beside_it() {
        let all = statement(
            "\"*\"",
            "[\"s3:GetObject\",\"s3:ListBucket\"]",
            &format!("[\"{BUCKET}\",\"{BUCKET}/open/*\",\"{BUCKET}/a*\"]"),
        );
        let versions =
            statement("{\"AWS\":[\"*\"]}", "\"s3:GetObjectVersion\"", &format!("\"{BUCKET}/old/*\""));
        let policy = read(&document(&format!("[{all},{versions}]"))).unwrap();
        assert!(policy.permits(ListBucket, ""));
        for (action, name, expected) in [
            (GetObject, "open/x", true),
            (GetObject, "abc", true),
            (GetObject, "open", false),
            (GetObject, "old/x", false),
            (GetObject, "b", false),
            (GetObjectVersion, "old/x", true),
            (GetObjectVersion, "open/x", false),
        ] {
            assert_eq!(policy.permits(action, name), expected, "{action:?} {name}");
        }
        let one = statement("{\"AWS\":\"*\"}", "\"s3:GetObject\"", &format!("\"{BUCKET}/*\""));
        let policy = read(&document(&one)).unwrap();
        assert!(policy.permits(GetObject, "any") && !policy.permits(ListBucket, ""));
        let policy = PublicPolicy::read(&public_read("b"), "b").unwrap();
        assert!(policy.permits(GetObject, "any") && policy.permits(ListBucket, ""));
        assert!(!policy.permits(GetObjectVersion, "any"));
    }

    #[test]
    fn policies_that_say_more_are_refused_and_the_words_say_what_is_supported() {
        let good = document(&statement("\"*\"", "\"s3:GetObject\"", &format!("\"{BUCKET}/*\"")));
        read(&good).unwrap();
        for (from, to) in [
            ("Allow", "Deny"),
            ("\"*\",\"Action\"", "{\"AWS\":\"arn:aws:iam::1:root\"},\"Action\""),
            ("\"*\",\"Action\"", "{\"Service\":\"x\"},\"Action\""),
            ("\"*\",\"Action\"", "\"alice\",\"Action\""),
            ("\"*\",\"Action\"", "{\"AWS\":[\"*\",\"alice\"]},\"Action\""),
            ("s3:GetObject", "s3:*"),
            ("s3:GetObject", "*"),
            ("s3:GetObject", "s3:PutObject"),
            ("s3:GetObject", "s3:Get*"),
            ("b/*", "b/exact"),
            ("b/*", "b/a*b*"),
            ("b/*", "b/?*"),
            ("b/*", "b/${aws:username}*"),
            ("\"Effect\"", "\"Condition\":{},\"Effect\""),
            ("\"Principal\"", "\"NotPrincipal\""),
            ("\"Action\"", "\"NotAction\""),
            ("\"Resource\"", "\"NotResource\""),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            let Err(PolicyFault::Unsupported(why)) = read(&text) else { panic!("{text}") };
            assert!(why.ends_with(SUPPORTED), "{why}");
        }
    }

    #[test]
    fn texts_that_are_no_policy_are_malformed() {
        let good = document(&statement("\"*\"", "\"s3:GetObject\"", &format!("\"{BUCKET}/*\"")));
        for (from, to) in [
            ("b/*", "other/*"),
            ("b/*", "b"),
            ("b/*", "bb/*"),
            ("b/*", "b*"),
            ("arn:aws:s3:::", "arn:aws:sqs:::"),
            ("s3:GetObject", "sqs:Send"),
            ("\"Effect\":\"Allow\",", ""),
            ("\"Principal\":\"*\",", ""),
            ("\"Principal\":\"*\",", "\"Principal\":[\"*\"],"),
            ("\"Principal\":\"*\",", "\"Principal\":{},"),
            ("\"s3:GetObject\"", "[]"),
            ("\"s3:GetObject\"", "[1]"),
            ("\"Effect\"", "\"Extra\":1,\"Effect\""),
            ("\"Effect\"", "\"Effect\":\"Allow\",\"Effect\""),
            ("\"Version\"", "\"Other\":1,\"Version\""),
            ("2012-10-17", "2024-01-01"),
            ("}}", "}"),
            ("}}", "}} x"),
        ] {
            let text = good.replace(from, to);
            assert_ne!(text, good, "{from}");
            assert!(matches!(read(&text), Err(PolicyFault::Malformed(_))), "{text}: {:?}", read(&text));
        }
        for text in
            ["", "[]", "null", "{}", "{\"Statement\":[]}", "{\"Statement\":[[]]}", "{\"Statement\":1}"]
        {
            assert!(matches!(read(text), Err(PolicyFault::Malformed(_))), "{text}");
        }
        let long =
            good.replace("2012-10-17\"", &format!("2012-10-17\",\"Id\":\"{}\"", "x".repeat(BYTES_MAX)));
        assert!(matches!(read(&long), Err(PolicyFault::Malformed(_))));
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(matches!(read(&deep), Err(PolicyFault::Malformed(_))));
    }

    proptest! {
        #[test]
        fn changed_policy_is_refused_or_permits_by_prefixes_that_it_names(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..128_u8), 0..4),
        ) {
            let mut bytes = public_read("b").into_bytes();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let text = String::from_utf8(bytes).expect("the changes are ASCII");
            if let Ok(policy) = read(&text) {
                prop_assert!(policy.versions.is_empty() || text.contains("GetObjectVersion"));
                for beginning in &policy.objects {
                    let named = format!("arn:aws:s3:::b/{beginning}*");
                    prop_assert!(Json::read(&text).is_ok_and(|json| json.contains(&named)), "{text}");
                }
            }
        }
    }
}

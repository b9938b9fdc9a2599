//! S3 and compatible stores: an object carries the token of the run that wrote it as metadata, and is put only if it
//! has not changed since the fence read it (`If-Match`, `If-None-Match`).
//!
//! An ETag is made from the body: two runs that write the very same bytes make one ETag, and the fence does not detect
//! a late run between them. So make the body of each run different, for example by a field with its token.

use std::future::Future;

use super::{FenceError, Guard};

/// The metadata that holds the token.
pub const METADATA: &str = "rosterd-token";
const ATTEMPTS: u32 = 10;

/// The metadata of an existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Head {
    /// As the store returns it.
    pub etag: String,
    /// Its [`METADATA`]; None: it was not written by a fence.
    pub token: Option<String>,
}

impl Head {
    /// An object with this ETag, and with this token in its [`METADATA`].
    pub fn new(etag: impl Into<String>, token: Option<String>) -> Self {
        Self { etag: etag.into(), token }
    }
}

/// The two requests of the program's own client that a fence needs.
pub trait ObjectStore {
    /// The error of its client.
    type Error: std::error::Error + 'static;

    /// HeadObject; `None`: there is no such object.
    fn head(&self, key: &str) -> impl Future<Output = Result<Option<Head>, Self::Error>> + Send;

    /// PutObject with the metadata [`METADATA`]` = token`, and with `If-Match: if_match`, or `If-None-Match: *` without
    /// one. False: the condition did not hold (412, 409 for a conflict, or 404 if the object with the ETag is gone).
    fn put(
        &self,
        key: &str,
        body: &[u8],
        token: &str,
        if_match: Option<&str>,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// Writes an object, unless a run with a higher token has.
pub async fn put<'r, S: ObjectStore>(
    store: &S,
    key: &str,
    body: &[u8],
    run: impl Into<Guard<'r>>,
) -> Result<(), FenceError<S::Error>> {
    let (run, what) = (run.into(), format!("object {key}"));
    let token = run.token.to_string();
    for _ in 0..ATTEMPTS {
        let head = store.head(key).await.map_err(FenceError::Store)?;
        let seen = head.as_ref().and_then(|head| head.token.as_ref()).and_then(|token| token.parse().ok());
        run.judge(&what, seen)?;
        let etag = head.as_ref().map(|head| head.etag.as_str());
        if store.put(key, body, &token, etag).await.map_err(FenceError::Store)? {
            return Ok(());
        }
        // Another writer was quicker: its token decides.
    }
    Err(FenceError::Contended(what))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use super::*;

    const OLD: Guard<'_> = Guard { job: "hello", item: 0, token: 9_007_199_254_740_993 };
    const NEW: Guard<'_> = Guard { token: 9_007_199_254_740_994, ..OLD };

    /// A store with S3's semantics: each put is atomic, and conditional on the current ETag.
    #[derive(Default)]
    struct Bucket {
        object: Mutex<Option<(Head, Vec<u8>)>>,
        /// Another run's write right before the next put.
        between: Mutex<Option<(Guard<'static>, &'static str)>>,
    }

    impl Bucket {
        fn place(&self, body: &[u8], token: &str) {
            let mut object = self.object.lock().unwrap();
            let number = object.as_ref().map_or(0, |(head, _)| head.etag.parse::<u32>().unwrap());
            *object = Some((Head { etag: (number + 1).to_string(), token: Some(token.into()) }, body.into()));
        }

        fn body(&self) -> String {
            String::from_utf8(self.object.lock().unwrap().as_ref().unwrap().1.clone()).unwrap()
        }
    }

    impl ObjectStore for Bucket {
        type Error = Infallible;

        async fn head(&self, _: &str) -> Result<Option<Head>, Infallible> {
            Ok(self.object.lock().unwrap().as_ref().map(|(head, _)| head.clone()))
        }

        async fn put(
            &self,
            _: &str,
            body: &[u8],
            token: &str,
            if_match: Option<&str>,
        ) -> Result<bool, Infallible> {
            if let Some((other, body)) = self.between.lock().unwrap().take() {
                self.place(body.as_bytes(), &other.token.to_string());
            }
            let now = self.object.lock().unwrap().as_ref().map(|(head, _)| head.etag.clone());
            if now.as_deref() != if_match {
                return Ok(false);
            }
            self.place(body, token);
            Ok(true)
        }
    }

    #[tokio::test]
    async fn an_object_that_a_newer_run_puts_between_look_and_put_is_kept() {
        let bucket = Bucket::default();
        put(&bucket, "report", b"first", &OLD).await.unwrap();
        *bucket.between.lock().unwrap() = Some((NEW, "newer"));
        let refused = put(&bucket, "report", b"late", &OLD).await.unwrap_err();
        assert!(refused.is_fenced(), "{refused}");
        assert!(refused.to_string().contains("token 9007199254740994 was seen"), "{refused}");
        assert_eq!(bucket.body(), "newer");
        *bucket.between.lock().unwrap() = Some((NEW, "again"));
        put(&bucket, "report", b"last", &NEW).await.unwrap();
        assert_eq!(bucket.body(), "last");
    }

    #[tokio::test]
    async fn two_runs_that_both_find_nothing_do_not_both_create() {
        let bucket = Bucket::default();
        *bucket.between.lock().unwrap() = Some((NEW, "newer"));
        assert!(put(&bucket, "report", b"late", &OLD).await.unwrap_err().is_fenced());
        assert_eq!(bucket.body(), "newer");
    }
}

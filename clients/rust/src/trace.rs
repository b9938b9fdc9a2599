//! The trace that a run belongs to. With the feature `opentelemetry` each attempt is a span in it, and user code runs
//! within that span: its own spans and outgoing calls belong to the fire's trace, and lines of the log have its ids.
//! Without the feature, or if the program has not set up a tracer, nothing is recorded; in the latter case the context
//! is still there. Called in the thread of user code.

#[cfg(feature = "opentelemetry")]
pub(crate) use self::with_opentelemetry::Traced;
#[cfg(not(feature = "opentelemetry"))]
pub(crate) use self::without::Traced;

#[cfg(not(feature = "opentelemetry"))]
mod without {
    use crate::machine::types::UserResult;
    use crate::run::Run;

    /// Nothing.
    #[derive(Clone)]
    pub(crate) struct Traced;

    impl Traced {
        pub(crate) fn begin(_: &Run) -> Self {
            Self
        }

        pub(crate) fn current() -> Self {
            Self
        }

        pub(crate) fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
            make()
        }

        pub(crate) fn ids(&self) -> Option<(String, String)> {
            None
        }

        pub(crate) async fn around<T>(self, code: impl Future<Output = T>) -> T {
            code.await
        }

        pub(crate) fn end(&self, _: &UserResult) {}
    }
}

#[cfg(feature = "opentelemetry")]
mod with_opentelemetry {
    use std::str::FromStr as _;

    use opentelemetry::context::FutureExt as _;
    use opentelemetry::trace::{
        SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
        Tracer as _,
    };
    use opentelemetry::{Context, InstrumentationScope, KeyValue, global};

    use crate::machine::types::UserResult;
    use crate::run::Run;

    /// An attempt's span, in the context of its run.
    #[derive(Clone)]
    pub(crate) struct Traced(Context);

    impl Traced {
        pub(crate) fn begin(run: &Run) -> Self {
            let carried = run.trace_context();
            let state = carried.get("tracestate").map(String::as_str).unwrap_or_default();
            let parent = carried.get("traceparent").and_then(|parent| read(parent, state));
            let context = Context::new();
            let context = match parent {
                Some(parent) => context.with_remote_span_context(parent),
                None => context,
            };
            let scope = InstrumentationScope::builder("rosterd-client")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build();
            let tracer = global::tracer_with_scope(scope);
            let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
            let span = tracer
                .span_builder(format!("run {}", run.job()))
                .with_kind(SpanKind::Consumer)
                .with_attributes([
                    KeyValue::new("rosterd.job", run.job().to_owned()),
                    KeyValue::new("rosterd.item", i64::from(run.item())),
                    KeyValue::new("rosterd.token", number(run.token())),
                    KeyValue::new("rosterd.attempt", i64::from(run.attempt())),
                    KeyValue::new("rosterd.source", run.source().as_str()),
                    KeyValue::new("rosterd.instance", run.instance_id().to_owned()),
                ])
                .start_with_context(&tracer, &context);
            Self(context.with_span(span))
        }

        /// The current context, to be passed to another thread.
        pub(crate) fn current() -> Self {
            Self(Context::current())
        }

        /// Calls something with the context as the current one.
        pub(crate) fn enter<T>(&self, make: impl FnOnce() -> T) -> T {
            let _current = self.0.clone().attach();
            make()
        }

        /// The ids of trace and span, for log lines; `None`: the run has no trace.
        pub(crate) fn ids(&self) -> Option<(String, String)> {
            let span = self.0.span().span_context().clone();
            span.is_valid().then(|| (span.trace_id().to_string(), span.span_id().to_string()))
        }

        /// Runs user code with the context as the current one.
        pub(crate) async fn around<T>(self, code: impl Future<Output = T>) -> T {
            code.with_context(self.0).await
        }

        pub(crate) fn end(&self, result: &UserResult) {
            let failed = match result {
                UserResult::Done => None,
                UserResult::Failed { error, .. } => Some(error.clone()),
                UserResult::Cancelled | UserResult::Overdue => Some("cancelled".to_owned()),
                UserResult::Dropped | UserResult::NotBegun => Some("dropped".to_owned()),
            };
            let span = self.0.span();
            if let Some(failed) = failed {
                span.set_status(Status::error(failed));
            }
            span.end();
        }
    }

    /// `00-{trace}-{span}-{flags}`, as the W3C has it; of a later version, the fields that this one knows.
    fn read(parent: &str, state: &str) -> Option<SpanContext> {
        let mut parts = parent.split('-');
        let mut part = |length: usize| {
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            parts.next().filter(|part| part.len() == length && part.chars().all(hex))
        };
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?) & TraceFlags::SAMPLED;
        let state = TraceState::from_str(state).unwrap_or_default();
        Some(SpanContext::new(trace, span, flags, true, state)).filter(SpanContext::is_valid)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";

        #[test]
        fn a_parent_is_read_as_the_w3c_has_it() {
            let read = |parent: String| read(&parent, "a=b");
            let good = read(format!("00-{TRACE}-{SPAN}-01")).unwrap();
            assert_eq!(
                (good.trace_id().to_string(), good.span_id().to_string()),
                (TRACE.into(), SPAN.into())
            );
            assert!(good.is_sampled() && good.is_remote() && good.trace_state().header() == "a=b");
            assert!(!read(format!("00-{TRACE}-{SPAN}-00")).unwrap().is_sampled());
            assert!(read(format!("01-{TRACE}-{SPAN}-01-more")).is_some(), "a later version");
            for bad in [
                format!("ff-{TRACE}-{SPAN}-01"),
                format!("00-{TRACE}-{SPAN}-01-more"),
                format!("00-{}-{SPAN}-01", "0".repeat(32)),
                format!("00-{TRACE}-{SPAN}"),
                format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
                String::new(),
            ] {
                assert_eq!(read(bad.clone()), None, "{bad}");
            }
        }
    }
}

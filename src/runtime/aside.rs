//! Work that gives way: where the processor is short, runs come before pages, questions and records.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;

/// Lets this thread give way to the others of the process, from now on. Does nothing where it would be the whole process.
pub fn give_way() {
    // On Linux niceness is the thread's alone.
    #[cfg(target_os = "linux")]
    let _as_before = rustix::process::nice(10);
}

/// Threads that give way. Cheap to clone; the last one to be dropped ends what is left on them.
#[derive(Debug, Clone)]
pub struct Aside {
    handle: Handle,
    _owner: Arc<Owner>,
}

#[derive(Debug)]
struct Owner(Option<Runtime>);

impl Drop for Owner {
    fn drop(&mut self) {
        // It may be dropped on a thread that must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Aside {
    /// Starts the threads; half as many as there are processors, four at most.
    ///
    /// # Errors
    ///
    /// The system gives no thread or no descriptor for them.
    pub fn start(name: &str) -> io::Result<Self> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads((processors / 2).clamp(1, 4))
            .thread_name(name)
            .on_thread_start(give_way)
            .enable_all()
            .build()?;
        Ok(Self { handle: runtime.handle().clone(), _owner: Arc::new(Owner(Some(runtime))) })
    }

    /// Does it there, as if it were done here: what it logs goes where the caller's log goes, it ends with the caller's wait,
    /// and its panic is the caller's.
    pub async fn run<F>(&self, work: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let work = work.in_current_span().with_current_subscriber();
        match AbortOnDropHandle::new(self.handle.spawn(work)).await {
            Ok(output) => output,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The process ends, and its threads have ended before the caller.
                Err(_cancelled) => std::future::pending().await,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn work_is_done_on_a_thread_that_gives_way() {
        let aside = Aside::start("aside").unwrap();
        let here = std::thread::current().id();
        let there = aside.run(async { (std::thread::current().id(), niceness()) }).await;
        assert_ne!(there.0, here);
        #[cfg(target_os = "linux")]
        assert_eq!(there.1, niceness() + 10);
    }

    fn niceness() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    #[tokio::test]
    async fn it_ends_with_the_wait_for_it() {
        let aside = Aside::start("aside").unwrap();
        let (begun, has_begun) = oneshot::channel();
        let (held, ended) = oneshot::channel::<()>();
        let mut work = Box::pin(aside.run(async move {
            let _held = held;
            let _nobody_waits = begun.send(());
            std::future::pending::<()>().await;
        }));
        assert!((&mut work).now_or_never().is_none());
        has_begun.await.unwrap();
        drop(work);
        assert!(ended.await.is_err(), "what it held is dropped");
    }

    #[tokio::test]
    async fn its_panic_is_the_callers() {
        let aside = Aside::start("aside").unwrap();
        let work = aside.run(async { panic!("injected") });
        let panic = std::panic::AssertUnwindSafe(work).catch_unwind().await.unwrap_err();
        assert_eq!(*panic.downcast::<&str>().unwrap(), "injected");
    }
}

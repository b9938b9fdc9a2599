//! Panics of the code under test: a task that panics would end silently.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Those of this thread since the last call.
pub fn take() -> Vec<String> {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            SEEN.with_borrow_mut(|seen| seen.push(info.to_string()));
            before(info);
        }));
    });
    SEEN.take()
}

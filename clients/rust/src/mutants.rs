//! Deliberate bugs, which show that tests find them: each leaves out one guard of the client. They exist only with the
//! feature `mutants`, and then only on a thread that has switched one on by name; normal builds have none of it. Not
//! for users: no version promises anything about it.

macro_rules! mutants {
    ($($name:ident: $text:literal, $what:literal;)*) => {
        $(#[doc = $what] pub const $name: &str = $text;)*
        /// All bugs, and what each does.
        #[cfg(feature = "mutants")]
        pub const ALL: &[(&str, &str)] = &[$(($name, $what)),*];
    };
}

mutants! {
    LEASE_FROM_ACK: "lease_from_ack", "a lease counts from the arrival of its acknowledgement, not from the sending of its heartbeat";
    LEASE_FROM_WELCOME: "lease_from_welcome", "the first lease counts from the arrival of the Welcome, not from the sending of the Hello";
    LEASE_ENDLESS: "lease_endless", "a lease never expires";
    START_WITHOUT_LEASE: "start_without_lease", "user code starts although the lease has expired";
    TOKENS_UNCHECKED: "tokens_unchecked", "a Trigger is accepted whatever its token";
    LEFT_STREAMS_HEARD: "left_streams_heard", "frames of an abandoned stream are accepted";
    OCCUPIED_ITEMS_START: "occupied_items_start", "an item starts although another run of it is still in user code";
    STREAMS_UNNUMBERED: "streams_unnumbered", "every Hello says that its stream is the first";
    TRIGGERS_DROPPED: "triggers_dropped", "a Trigger is dropped without an answer";
    HELLO_FORGETS_RUNS: "hello_forgets_runs", "a Hello does not name the runs in flight";
    LEAVE_NOT_REPEATED: "leave_not_repeated", "the next host is not told that its worker is leaving";
}

#[cfg(feature = "mutants")]
thread_local! {
    static ON: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Switches a bug on for this thread, or none.
#[cfg(feature = "mutants")]
pub fn switch(name: Option<&'static str>) {
    ON.set(name);
}

/// Whether this bug is switched on.
#[cfg(feature = "mutants")]
pub(crate) fn is_on(name: &str) -> bool {
    ON.get() == Some(name)
}

/// Whether this bug is switched on: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is_on(_name: &str) -> bool {
    false
}

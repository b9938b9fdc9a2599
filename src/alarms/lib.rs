//! Alarms: what is wrong with a job or with a coordinator, told to people until it is over.
//!
//! The decision is pure, and level-triggered: [`rules`] says from what a job is now, and from a little that is remembered of it,
//! which conditions hold; [`book`] makes alarms of them, and keeps for each receiver what it has not been sent yet. So no message
//! waits in a queue: what could not be sent is sent later in its state of then, and what came and went meanwhile is never sent.
//! [`desk`] is the shell: it looks, asks the book, sends, and writes down what became of it. It reads what the coordinator
//! publishes and is never in the way of a fire. It decides nothing about jobs. Joined to the coordinator in `src/app`.

mod agenda;
pub mod book;
pub mod desk;
pub mod facts;
pub mod forms;
pub mod handler;
pub mod kind;
pub mod letter;
pub mod rules;
pub mod send;
pub mod settings;
pub mod silence;
mod state;
#[cfg(test)]
mod tests;

//! The planners, tried on whatever can be: every plan passes the checker, planning again changes nothing, an
//! hour of trouble loses no due time, and what people may read is in the golden scripts.

mod ahead;
mod assign;
mod checker;
mod golden;
mod guards;
mod hour;
mod properties;
mod speed;
mod spoilt;
mod world;

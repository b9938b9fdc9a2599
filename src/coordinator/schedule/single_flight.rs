//! Reads of all coordinators and of all attachments: at most one of each at a time.

use crate::io::Io;
use crate::io::event::Query;
use crate::io::pending::ReadFor;

/// The reads of all coordinators and of all attachments: each is in flight or not, and requested again or not. A job
/// without a leader requests one of them; hundreds of jobs whose leader has died need only two.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight {
    coordinators: (bool, bool),
    attachments: (bool, bool),
}

impl SingleFlight {
    pub(crate) fn read_members(&mut self, io: &mut Io) {
        if begins(&mut self.coordinators) {
            io.read(ReadFor::Coordinators, Query::Coordinators);
        }
    }

    pub(crate) fn read_attachments(&mut self, io: &mut Io) {
        if begins(&mut self.attachments) {
            io.read(ReadFor::Attachments, Query::Attachments);
        }
    }

    /// A read has ended: if it was requested meanwhile, it may have started too early to see the reason.
    pub(crate) fn read_again(&mut self, io: &mut Io, whom: &ReadFor) {
        match whom {
            ReadFor::Coordinators if ends(&mut self.coordinators) => self.read_members(io),
            ReadFor::Attachments if ends(&mut self.attachments) => self.read_attachments(io),
            _ => {}
        }
    }
}

fn begins((under_way, again): &mut (bool, bool)) -> bool {
    *again = *under_way;
    !std::mem::replace(under_way, true)
}

fn ends((under_way, again): &mut (bool, bool)) -> bool {
    *under_way = false;
    std::mem::take(again)
}

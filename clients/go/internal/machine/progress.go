package machine

import (
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// progressEvery is how often the progress of a run goes out at most.
const progressEvery = 250 * time.Millisecond

// progress is what a run sends before it ends.
type progress struct {
	said   Progress
	offset []byte
	// toSay and offsetToSay: whether progress and offset must be sent.
	toSay, offsetToSay bool
	// next is when more may be sent, and offsetNext when an offset alone may be.
	next, offsetNext time.Duration
	offsetSet        bool
}

// due is when the pending progress goes out.
func (p *progress) due() time.Duration {
	switch {
	case p.toSay:
		return p.next
	case p.offsetToSay:
		return max(p.next, p.offsetNext)
	default:
		return never
	}
}

func (f *inFlight) progressed(key Key, said Progress) {
	run, known := f.active.get(key)
	if !known || run.phase != inUserCode {
		return
	}
	run.progress.said = Progress{Percent: min(said.Percent, 100), Message: Shorten(said.Message, MaxProgress)}
	run.progress.toSay = true
	f.progressing.put(key, run)
}

func (f *inFlight) offsetSet(now Now, key Key, offset []byte) {
	run, known := f.active.get(key)
	if !known || run.phase != inUserCode {
		return
	}
	p := &run.progress
	if !p.offsetSet {
		p.offsetSet, p.offsetNext = true, now.Boot+progressEvery
	}
	p.offset, p.offsetToSay = offset, true
	f.progressing.put(key, run)
}

// sayOffsetsAgain: another coordinator may not know how far runs have come.
func (f *inFlight) sayOffsetsAgain() {
	for key, run := range f.active.all() {
		if run.phase == inUserCode && run.progress.offsetSet {
			run.progress.offsetToSay = true
			f.progressing.put(key, run)
		}
	}
}

// dueProgress: only the last progress of a run is kept, and it goes out four times a second at most.
func (f *inFlight) dueProgress(now Now) []*pb.RunProgress {
	if f.progressing.len() == 0 {
		return nil
	}
	var due []*pb.RunProgress
	for key, run := range f.progressing.all() {
		p := &run.progress
		if now.Boot < p.due() {
			continue
		}
		f.progressing.delete(key)
		p.toSay, p.offsetToSay, p.next = false, false, now.Boot+progressEvery
		due = append(due, &pb.RunProgress{Run: key.ref(), Percent: p.said.Percent, Message: p.said.Message, Offset: p.offset})
	}
	return due
}

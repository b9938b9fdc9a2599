package machine

import (
	"fmt"
	"log/slog"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

const maxRemembered = 128

// callbacks are those of fires: each is called once, and its answer is kept, since the coordinator asks again after a
// lost stream.
type callbacks struct {
	*output
	slots int
	// answer reports whether there was a stream to answer on.
	answer func(*pb.CallbackDone) bool
	// missed are the ids of answers that had no stream.
	missed []string
	// open holds the deadline of each.
	open *ordered[string, time.Duration]
	done *ordered[string, *pb.CallbackDone]
}

func newCallbacks(slots int, out *output, answer func(*pb.CallbackDone) bool) *callbacks {
	return &callbacks{
		output: out, slots: slots, answer: answer,
		open: newOrdered[string, time.Duration](), done: newOrdered[string, *pb.CallbackDone](),
	}
}

func (c *callbacks) any() bool {
	return c.open.len() > 0
}

func (c *callbacks) deadline() time.Duration {
	next := never
	for _, by := range c.open.all() {
		next = min(next, by)
	}
	return next
}

func (c *callbacks) asked(boot time.Duration, callback *pb.Callback) {
	id := callback.GetCallbackId()
	if c.open.has(id) {
		return
	}
	if known, found := c.done.get(id); found {
		c.answer(known)
		return
	}
	if c.open.len() >= c.slots {
		c.answer(&pb.CallbackDone{CallbackId: id, Error: "too many callbacks at a time"})
		return
	}
	by := never
	if timeout := callback.GetTimeout().AsDuration(); timeout > 0 {
		by = after(boot, timeout)
	}
	c.open.put(id, by)
	c.emit(StartCallback{Callback: callback})
}

func (c *callbacks) ended(id, failure string, timedOut bool) {
	if !c.open.delete(id) {
		return
	}
	answer := &pb.CallbackDone{CallbackId: id, Error: Shorten(failure, MaxError), TimedOut: timedOut}
	c.done.put(id, answer)
	if c.done.len() > maxRemembered {
		for oldest := range c.done.all() {
			c.done.delete(oldest)
			break
		}
	}
	if failure != "" {
		c.note(slog.LevelError, fmt.Sprintf("callback %s failed: %s", id, failure))
	}
	if !c.answer(answer) {
		c.missed = append(c.missed, id)
	}
}

// sayMissed sends the answers that had no stream.
func (c *callbacks) sayMissed() {
	for _, id := range c.missed {
		if answer, kept := c.done.get(id); kept {
			c.answer(answer)
		}
	}
	c.missed = nil
}

func (c *callbacks) expire(boot time.Duration) {
	for id, by := range c.open.all() {
		if boot >= by {
			c.ended(id, "timed out", true)
		}
	}
}

func (c *callbacks) abandon() {
	for id := range c.open.all() {
		c.ended(id, "the worker left", false)
	}
}

package machine

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

func TestShortenCutsBetweenCharacters(t *testing.T) {
	for _, text := range []string{strings.Repeat("ü", 100), strings.Repeat("日本", 40), "plain", strings.Repeat("😀", 30)} {
		for limit := 4; limit < 40; limit++ {
			short := Shorten(text, limit)
			if len(short) > limit || !utf8.ValidString(short) {
				t.Errorf("%q has %d bytes of %d", short, len(short), limit)
			}
			if kept := strings.TrimSuffix(short, mark); !strings.HasPrefix(text, kept) || (len(text) > limit && len(kept) < limit-8) {
				t.Errorf("%q is not the beginning of %q", short, text)
			}
		}
	}
	if text := Shorten("a\xffb", 10); text != "a\uFFFDb" {
		t.Errorf("%q", text)
	}
}

func TestTheAnswerToASignalNamesAFewRuns(t *testing.T) {
	if note := waitsFor(nil, time.Second); note.Text != "signal received: leaving; nothing is in flight" {
		t.Error(note.Text)
	}
	var keys []Key
	for token := range uint64(7) {
		keys = append(keys, Key{Item{"j", uint32(token)}, token + 1})
	}
	note := waitsFor(keys, 30*time.Second)
	want := "signal received: leaving once 7 runs in flight (j/0 token 1, j/1 token 2, j/2 token 3, j/3 token 4, j/4 token 5, …) ended, " +
		"after 30s at the latest; a second signal exits immediately and records them as crashed"
	if note.Text != want {
		t.Error(note.Text)
	}
}

func TestPausesBetweenAttemptsGrowToTheirBound(t *testing.T) {
	run := inFlightRun{trigger: triggerWith(100*time.Millisecond, 3, time.Second)}
	for attempt, want := range []time.Duration{0, 100, 300, 900, 1000, 1000} {
		run.attempt = uint32(attempt)
		if got := run.pause(); attempt > 0 && got != want*time.Millisecond {
			t.Errorf("after attempt %d: %v", attempt, got)
		}
	}
	run.trigger = triggerWith(time.Hour, 1000, 0)
	run.trigger.RetryBackoffMax = nil
	run.attempt = 100
	if got := run.pause(); got != never {
		t.Errorf("%v", got)
	}
}

func TestTimesThatDoNotFitStayAtNever(t *testing.T) {
	for _, sum := range []time.Duration{after(never, 1), after(5, never), after(never-5, 10)} {
		if sum != never {
			t.Errorf("%d", sum)
		}
	}
	if after(5, 10) != 15 {
		t.Error(after(5, 10))
	}
}

func TestAMapIsWalkedInOrderWhileItsEntriesAreDeleted(t *testing.T) {
	o := newOrdered[int, string]()
	for i := range 5 {
		o.put(i, "")
	}
	o.put(2, "again")
	var seen []int
	for key, value := range o.all() {
		seen = append(seen, key)
		o.delete(key)
		if (value == "again") != (key == 2) {
			t.Errorf("%d is %q", key, value)
		}
	}
	if len(seen) != 5 || seen[2] != 2 || o.len() != 0 || o.delete(2) {
		t.Errorf("%v, %d are left", seen, o.len())
	}
}

func triggerWith(backoff time.Duration, multiplier uint32, most time.Duration) *pb.Trigger {
	return &pb.Trigger{
		RetryBackoff: durationpb.New(backoff), RetryBackoffMultiplier: multiplier, RetryBackoffMax: durationpb.New(most),
	}
}

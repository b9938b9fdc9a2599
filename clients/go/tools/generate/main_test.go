package main

import "testing"

func TestWhatIsCommittedIsFresh(t *testing.T) {
	if err := run(true); err != nil {
		t.Fatal(err)
	}
}

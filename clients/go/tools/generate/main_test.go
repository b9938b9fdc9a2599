package main

import "testing"

func TestWhatIsCommittedIsFresh(t *testing.T) {
	// As the program is run: in the module's folder.
	t.Chdir("..")
	if err := run(true); err != nil {
		t.Fatal(err)
	}
}

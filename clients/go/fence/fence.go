// Package fence has writes that a store refuses once it has seen a higher token: those of a replaced run.
//
// The lease makes two runs of an item at a time rare; a process that was frozen in the middle of a write can still
// resume after its lease. Only the store can detect that. This package needs only the client library that the program
// has anyway. Their formats are the same in all languages, so that workers in several share them.
package fence

import (
	"errors"
	"fmt"
)

// ErrFenced matches every FencedError.
var ErrFenced = errors.New("a newer run of the item took this one's place")

// A FencedError says that the store has seen a higher token, and that nothing was written.
type FencedError struct {
	// What is the target of the write.
	What  string
	Token int64
	// Seen is the token that the store has seen.
	Seen int64
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("%s: token %d came too late, token %d was seen: another run of the item took this one's place", e.What, e.Token, e.Seen)
}

// Is makes it an ErrFenced.
func (e *FencedError) Is(target error) bool {
	return target == ErrFenced
}

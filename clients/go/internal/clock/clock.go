// Package clock is the only one that reads a clock.
package clock

import (
	"time"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
)

// Clock reads both clocks.
type Clock interface {
	Now() machine.Now
}

// System is the clock of this machine.
type System struct{}

// Now reads both clocks.
func (System) Now() machine.Now {
	return machine.Now{Boot: Boot(), Wall: time.Now()}
}

//go:build !linux

package clock

import "time"

var begin = time.Now()

// Boot is the time since the process began. On some systems it stops while the machine sleeps: there the worker learns
// only from the coordinator that its lease has expired.
func Boot() time.Duration {
	return time.Since(begin)
}

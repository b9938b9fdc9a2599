package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the time since the machine started, counting while it sleeps, since a lease ends then too.
func Boot() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		// Every kernel since 2.6.39 has it.
		panic("rosterd: no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(at.Nano())
}

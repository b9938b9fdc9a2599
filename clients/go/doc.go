// Package rosterd has workers for rosterd, a distributed scheduler for sharded cron jobs: the coordinator splits a job
// into items and decides which worker runs which, and when; this package runs them.
//
//	w, err := rosterd.NewWorker(rosterd.WithServer("localhost:7700"), rosterd.WithSlots(8))
//	if err != nil {
//		log.Fatal(err)
//	}
//	w.Job("hello", func(ctx context.Context, run *rosterd.Run) error {
//		fmt.Println("item", run.Item, "of", run.Total)
//		return nil
//	})
//	err = w.Run(ctx)
//
// A [Worker] is one process with one stream to a coordinator, for all its jobs. A job is a name and a [Handler]. A [Run] is
// what a handler gets: one execution of one item for one fire. An [Option] is everything else.
//
// Heartbeats and timers go on whatever handlers do. When the lease ends, another worker may start the same item; before
// that the context of its run is cancelled. A function cannot be killed: pass the context on, or check ctx.Err() from
// time to time, which checks the lease itself. Until the handler returns, its item is not started here again. Pass
// Run.Token to what the run writes to, so that it can refuse late writes: package fence does so for PostgreSQL, Redis,
// S3 and files.
package rosterd

// Version of this package.
const Version = "0.1.0"

// Command hello is the smallest worker.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/rosterd/rosterd/clients/go"
)

func main() {
	w, err := rosterd.NewWorker(rosterd.WithServer("localhost:7700"), rosterd.WithSlots(8))
	if err != nil {
		log.Fatal(err)
	}
	w.Job("hello", func(_ context.Context, run *rosterd.Run) error {
		_, err := fmt.Println("item", run.Item, "of", run.Total, run.ItemParameter)
		return err
	})
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

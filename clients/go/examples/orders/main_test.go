package main

import (
	"errors"
	"testing"

	"github.com/rosterd/rosterd/clients/go/fence"
	"github.com/rosterd/rosterd/clients/go/rosterdtest"
)

func TestARegionIsArchivedFromWhereTheLastRunStoppedAndNotByARunThatWasReplaced(t *testing.T) {
	store := &archive{tokens: make(map[string]int64)}
	trigger := rosterdtest.Trigger{Job: "orders", ItemParameter: "north", Token: 7, Streaming: true, Offset: []byte("120")}
	end := rosterdtest.Call(t.Context(), archiveOrders(store), trigger)
	if end.Outcome != rosterdtest.Succeeded || end.Processed != 130 || string(end.Offset) != "250" || end.Percent != 100 {
		t.Errorf("%+v", end)
	}
	trigger.Token = 6
	end = rosterdtest.Call(t.Context(), archiveOrders(store), trigger)
	if end.Outcome != rosterdtest.Failed || end.Retryable || !errors.Is(end.Err, fence.ErrFenced) || len(store.orders) != 130 {
		t.Errorf("%+v", end)
	}
}

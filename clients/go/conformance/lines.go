package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/internal/clock"
)

// lines are what `rosterd verify` reads.
type lines struct {
	file   *os.File
	worker string
}

// line is one of them; one about the process has no run.
type line struct {
	At     int64  `json:"at"`
	Wall   int64  `json:"wall"`
	Worker string `json:"worker"`
	What   string `json:"what"`
	Detail string `json:"detail"`
	*ofRun `json:",omitempty"`
}

type ofRun struct {
	Job      string `json:"job"`
	Item     int    `json:"item"`
	Token    int64  `json:"token"`
	Fire     int64  `json:"fire"`
	Source   string `json:"source"`
	Attempt  int    `json:"attempt"`
	Instance string `json:"instance"`
}

func openLog() (*lines, error) {
	l := &lines{file: os.Stdout, worker: environment("CONFORMANCE_NAME", "go")}
	if path := os.Getenv("CONFORMANCE_LOG"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		l.file = file
	}
	return l, nil
}

func (l *lines) process(what, detail string) {
	l.write(line{What: what, Detail: detail})
}

func (l *lines) run(what, detail string, run *rosterd.Run) {
	l.write(line{What: what, Detail: detail, ofRun: &ofRun{
		Job: run.Job, Item: run.Item, Token: run.Token, Fire: run.FireTime.UnixMilli(), Source: string(run.Source),
		Attempt: run.Attempt, Instance: run.InstanceID,
	}})
}

// write writes one line immediately: a process that is killed loses none, and lines of several goroutines do not mix.
func (l *lines) write(said line) {
	said.At, said.Wall, said.Worker = int64(clock.Boot()), time.Now().UnixMilli(), l.worker
	text, err := json.Marshal(said)
	if err == nil {
		_, err = l.file.Write(append(text, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "a line cannot be written:", err)
		os.Exit(1)
	}
}

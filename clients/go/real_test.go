package rosterd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rosterd/rosterd/clients/go/internal/scripted"
)

// binary is the coordinator: ROSTERD_BINARY, else that of this repository's release build.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("ROSTERD_BINARY")
	if path == "" {
		path = "../../target/release/rosterd"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: `cargo build --release`, or name one by ROSTERD_BINARY", err)
	}
	return path
}

// real is a real coordinator with a store of its own.
type real struct {
	t       *testing.T
	folder  string
	flags   []string
	address string
	command *exec.Cmd
	done    chan struct{}
}

// serve starts one that serves until the test ends.
func serve(t *testing.T, flags ...string) *real {
	t.Helper()
	r := &real{t: t, folder: t.TempDir(), flags: flags, address: "127.0.0.1:0"}
	t.Cleanup(r.kill)
	r.start()
	return r
}

var serving = regexp.MustCompile(`serving address=(\S+)`)

// start serves the first time on any free port, then on the same.
func (r *real) start() {
	r.t.Helper()
	said := new(text)
	flags := append([]string{"serve", "--data-dir", filepath.Join(r.folder, "data"), "--listen", r.address}, r.flags...)
	r.command = exec.Command(binary(r.t), flags...)
	r.command.Stdout, r.command.Stderr = said, said
	if err := r.command.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.done = make(chan struct{})
	go func(command *exec.Cmd, done chan struct{}) {
		defer close(done)
		_ = command.Wait()
	}(r.command, r.done)
	scripted.Until(r.t, "the coordinator serves", func() bool {
		select {
		case <-r.done:
			r.t.Fatal(said)
		default:
		}
		found := serving.FindStringSubmatch(said.String())
		if found == nil {
			return false
		}
		r.address = found[1]
		return true
	})
}

func (r *real) kill() {
	if r.command == nil {
		return
	}
	_ = r.command.Process.Kill()
	<-r.done
	r.command = nil
}

// ask is the output of `rosterd …`.
func (r *real) ask(command ...string) string {
	r.t.Helper()
	asked := exec.Command(binary(r.t), append(command, "--server", r.address)...)
	output, err := asked.Output()
	if err != nil {
		stderr := ""
		if exit, is := err.(*exec.ExitError); is {
			stderr = string(exit.Stderr)
		}
		r.t.Fatalf("rosterd %v: %v: %s", command, err, stderr)
	}
	return string(output)
}

// apply creates a job of these items with their parameters, for the conformance worker.
func (r *real) apply(job string, more map[string]any, parameters ...string) {
	r.t.Helper()
	file := map[string]any{"jobName": job, "shardingTotalCount": len(parameters)}
	joined := ""
	for item, parameter := range parameters {
		if item > 0 {
			joined += ","
		}
		joined += string(rune('0'+item)) + "=" + parameter
	}
	file["shardingItemParameters"] = joined
	for name, value := range more {
		file[name] = value
	}
	ours, _ := file["rosterd"].(map[string]any)
	if ours == nil {
		ours = map[string]any{}
	}
	ours["handler"] = "conformance"
	file["rosterd"] = ours
	said, err := json.Marshal(file)
	if err != nil {
		r.t.Fatal(err)
	}
	path := filepath.Join(r.folder, "job.json")
	if err := os.WriteFile(path, said, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.ask("jobs", "apply", "--file", path)
}

// record is a run in the output of `rosterd runs --json`.
type record struct {
	Item      int
	Outcome   *string
	Output    string
	Error     string
	Source    string
	Instance  string
	Attempt   int
	Processed int
	Token     int64
}

// runs, latest first.
func (r *real) runs(job string) []record {
	r.t.Helper()
	var found []record
	if err := json.Unmarshal([]byte(r.ask("runs", "--job", job, "--json")), &found); err != nil {
		r.t.Fatal(err)
	}
	return found
}

// ended waits for a run that has.
func (r *real) ended(job string, item int) record {
	r.t.Helper()
	var found record
	scripted.Until(r.t, "a run of "+job+" has ended", func() bool {
		for _, run := range r.runs(job) {
			if run.Item == item && run.Outcome != nil {
				found = run
				return true
			}
		}
		return false
	})
	return found
}

// at is the instance at which the run of an item is in flight; empty: there is no run.
func (r *real) at(job string, item int) string {
	r.t.Helper()
	var items []struct{ Running *struct{ Instance string } }
	if err := json.Unmarshal([]byte(r.ask("items", "--job", job, "--json")), &items); err != nil {
		r.t.Fatal(err)
	}
	if item >= len(items) || items[item].Running == nil {
		return ""
	}
	return items[item].Running.Instance
}

func (r *real) running(job string) {
	r.t.Helper()
	scripted.Until(r.t, job+" runs", func() bool { return r.at(job, 0) != "" })
}

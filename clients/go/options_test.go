package rosterd_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rosterd/rosterd/clients/go"
)

func TestAllDefectsOfOptionsAreSaidAtOnce(t *testing.T) {
	_, err := rosterd.NewWorker(
		rosterd.WithServer("ftp://a:1, http://example.com:7700"), rosterd.WithCredential("s3cret"), rosterd.WithSlots(5000),
		rosterd.WithLabels(map[string]string{"zone": strings.Repeat("a", 129)}), rosterd.WithDrainTimeout(-time.Second),
		rosterd.WithHealth("7701"), rosterd.WithClientCertificate([]byte("pem"), nil),
	)
	if !errors.Is(err, rosterd.ErrInvalidOption) {
		t.Fatalf("the error is %v", err)
	}
	for _, part := range []string{
		`server "ftp://a:1": only http:// and https:// are known`,
		`server "http://example.com:7700": the credential would go there in plain text`,
		"slots must be 1 to 4096, not 5000",
		`labels: at most 128 bytes each, "zone" has more`,
		"the drain timeout must not be negative, not -1s",
		`health "7701" is no address`,
		"client certificate and key go together (ROSTERD_CERT, ROSTERD_KEY): give both or none",
	} {
		contains(t, err.Error(), part)
	}
	if strings.Contains(err.Error(), "s3cret") {
		t.Error("the credential is in the error")
	}
}

func TestTheEnvironmentSaysWhatOptionsDoNot(t *testing.T) {
	t.Setenv("ROSTERD_SERVER", "a:1,https://example.com")
	t.Setenv("ROSTERD_CREDENTIAL", "blank blank")
	_, err := rosterd.NewWorker()
	contains(t, err.Error(), `server "a:1": the credential would go there in plain text`)
	contains(t, err.Error(), "credential: it has characters that no credential has")
	t.Setenv("ROSTERD_CREDENTIAL", "s3cret")
	t.Setenv("ROSTERD_INSECURE_CREDENTIAL", "true")
	if _, err := rosterd.NewWorker(); err != nil {
		t.Error(err)
	}
	t.Setenv("ROSTERD_CA", "/nowhere/ca.pem")
	_, err = rosterd.NewWorker(rosterd.WithServer("localhost:7700"))
	contains(t, err.Error(), "ROSTERD_CA=/nowhere/ca.pem cannot be read: no such file or directory: name a PEM file")
}

func TestAJobThatIsAddedTooLateIsSaid(t *testing.T) {
	lines := new(text)
	w, err := rosterd.NewWorker(rosterd.WithLogger(slog.New(slog.NewTextHandler(lines, nil))), rosterd.WithoutSignals())
	if err != nil {
		t.Fatal(err)
	}
	w.Job("early", nothing)
	w.Stop()
	equal(t, "error", w.Run(t.Context()), nil)
	w.Job("late", nothing)
	contains(t, lines.String(), "jobs are added before the worker runs")
	if err := w.Run(t.Context()); err == nil || err.Error() != "rosterd: a worker runs once" {
		t.Errorf("the error is %v", err)
	}
}

func TestWhatIsWrongWithJobsRunSays(t *testing.T) {
	w, err := rosterd.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a worker without jobs has nothing to do") {
		t.Errorf("the error is %v", err)
	}
	w.Job("", nothing)
	w.Job("nil", nil)
	w.Job("good", nothing)
	w.Job("good", nothing)
	w.Job("long", nothing, rosterd.WithConfigText(strings.Repeat("#", 64*1024+1)))
	w.Job("file", nothing, rosterd.WithConfigFile("/nowhere/job.yaml"))
	w.Job("commas", nothing, rosterd.WithConfig(rosterd.JobConfig{Items: 1, ItemParameters: []string{"a,b"}}))
	w.Job("many", nothing, rosterd.WithConfig(rosterd.JobConfig{Items: 1, ItemParameters: []string{"a", "b"}}))
	err = w.Run(context.Background())
	for _, part := range []string{
		"a job needs a name", `job "nil": the handler is nil`, `job "good" is there already`, `job "long": the config has 65537 bytes`,
		`job "file": the config cannot be read`, "a job file parts parameters by commas", "ItemParameters[1]: there is no such item of 1",
	} {
		contains(t, err.Error(), part)
	}
}

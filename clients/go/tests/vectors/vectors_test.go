// Package vectors plays the vectors of clients/spec to the machine: this is the adapter that its README asks for.
package vectors

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	"github.com/rosterd/rosterd/clients/go/internal/wire"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// knownFailures are names of vectors that this client does not pass yet.
var knownFailures = map[string]bool{}

const folder = "../../../spec/vectors"

// fields are a map of a vector.
type fields = map[string]any

type vector struct {
	Name     string
	Rules    []string
	Given    fields
	Begin    string
	Welcome  fields
	Unlisted []string
	Steps    []fields
}

func TestVectors(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no vectors in %s: %v", folder, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var vectors []vector
		if err := yaml.Unmarshal(text, &vectors); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, vector := range vectors {
			t.Run(vector.Name, func(t *testing.T) {
				if knownFailures[vector.Name] {
					t.Skip("a known failure")
				}
				if err := vector.play(); err != nil {
					t.Errorf("%s: %v: %v", path, vector.Rules, err)
				}
			})
		}
	}
}

// play returns the difference from the vector.
func (v *vector) play() error {
	p := newPlayer(v)
	if v.Begin == "attached" {
		p.attach(v)
	}
	unlisted := v.Unlisted
	if unlisted == nil {
		unlisted = []string{"run_started"}
	}
	for _, step := range v.Steps {
		if err := p.step(step, unlisted); err != nil {
			return fmt.Errorf("at %v: %w", step["at"], err)
		}
	}
	return nil
}

const (
	// begin is the boot clock's time when the machine is made.
	begin = 1000 * time.Second
	// mostTicks at one instant; more, and the machine does not come to rest.
	mostTicks = 1000
)

var wall = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// player drives one machine.
type player struct {
	machine *machine.Machine
	now     time.Duration
	stream  uint64
	// acknowledge every heartbeat as it goes out.
	acknowledge bool
	effects     []effect
}

func newPlayer(v *vector) *player {
	settings := machine.Settings{
		Servers: []string{"a:1", "b:1"}, Address: "here", Slots: 4, Client: "rosterd-go/test",
		DrainTimeout: 30 * time.Second, LeaveTimeout: 10 * time.Second,
		ConnectTimeout: 3 * time.Second, LongestDelay: 10 * time.Second,
	}
	var access wire.Access
	jobs := []any{"j", "k"}
	for name, value := range v.Given {
		switch name {
		case "servers":
			settings.Servers = texts(value)
		case "jobs":
			jobs = value.([]any)
		case "slots":
			settings.Slots = value.(int)
		case "drain_timeout":
			settings.DrainTimeout = millis(value)
		case "leave_timeout":
			settings.LeaveTimeout = millis(value)
		case "credential":
			if value == true {
				access.Credential = "secret"
			}
		case "authorities":
			if value == true {
				access.Roots = wire.PEM{Text: []byte("authorities")}
			}
		default:
			panic("given: " + name)
		}
	}
	settings.Trusted = access.Trusts(settings.Servers)
	var registrations []machine.Registration
	for _, name := range texts(jobs) {
		registrations = append(registrations, machine.Registration{Job: name, HandlerType: name})
	}
	chance := rand.New(rand.NewPCG(1, 2))
	return &player{machine: machine.New(settings, registrations, chance.Float64), now: begin}
}

func (p *player) attach(v *vector) {
	p.feed(machine.Start{})
	p.feed(machine.Opened{Stream: p.stream})
	p.feed(machine.Received{Stream: p.stream, Frame: frame(fields{"welcome": v.Welcome})})
	jobs := []any{"j", "k"}
	if given, is := v.Given["jobs"]; is {
		jobs = given.([]any)
	}
	for _, job := range jobs {
		registered := fields{"job": job, "sharding_total_count": 3}
		p.feed(machine.Received{Stream: p.stream, Frame: frame(fields{"registered": registered})})
	}
	p.effects = nil
}

func (p *player) step(step fields, unlisted []string) error {
	at := begin + millis(step["at"])
	p.acknowledge = step["acknowledge"] == true
	if step["asleep"] != true {
		for p.machine.Deadline() < at {
			p.now = max(p.now, p.machine.Deadline())
			if err := p.tick(); err != nil {
				return err
			}
		}
	}
	p.now = at
	stream := p.stream
	if given, is := step["stream"]; is {
		stream = uint64(given.(int))
	}
	event, isLost := eventOf(step, stream)
	p.feed(event)
	for range mostTicks {
		if p.machine.Deadline() > p.now {
			break
		}
		p.feed(machine.Tick{})
	}
	if p.machine.Deadline() <= p.now {
		return fmt.Errorf("the machine does not come to rest")
	}
	found := p.effects
	p.effects = nil
	if given, is := step["unlisted"]; is {
		unlisted = texts(given)
	}
	drop := map[string]bool{}
	for _, kind := range unlisted {
		drop[kind] = true
	}
	if p.acknowledge {
		drop["heartbeat"] = true
	}
	var listed []effect
	for _, effect := range found {
		closes := isLost && effect.kind == "close" && effect.value == any(int(stream))
		if !drop[effect.kind] && !closes {
			listed = append(listed, effect)
		}
	}
	expected, _ := step["expect"].([]any)
	return compare(listed, expected, millis(step["at"]), step["in_order"] == true)
}

func (p *player) tick() error {
	before := p.machine.Deadline()
	for range mostTicks {
		p.feed(machine.Tick{})
		if p.machine.Deadline() != before {
			return nil
		}
	}
	return fmt.Errorf("the machine does not come to rest at %v", before-begin)
}

func (p *player) feed(event machine.Event) {
	now := machine.Now{Boot: p.now, Wall: wall.Add(p.now - begin)}
	for _, found := range p.machine.Handle(now, event) {
		if open, is := found.(machine.Open); is {
			p.stream = open.Stream
		}
		if said, is := effectOf(found); is {
			said.at = p.now - begin
			p.effects = append(p.effects, said)
		}
		switch found := found.(type) {
		case machine.StartRun:
			// User code begins at the same instant.
			p.feed(machine.Began{Key: found.Key})
		case machine.Send:
			if beat := found.Frame.GetHeartbeat(); beat != nil && p.acknowledge {
				ack := &pb.HeartbeatAck{Sequence: beat.GetSequence()}
				frame := &pb.SessionResponse{Frame: &pb.SessionResponse_HeartbeatAck{HeartbeatAck: ack}}
				p.feed(machine.Received{Stream: found.Stream, Frame: frame})
			}
		}
	}
}

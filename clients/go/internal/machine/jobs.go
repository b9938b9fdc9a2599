package machine

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// offerAgain: a refused job is offered again after this, in case an operator has fixed it.
const offerAgain = 30 * time.Second

type jobState int

const (
	jobAsked jobState = iota
	jobRegistered
	jobRefused
	jobShutDown
)

type job struct {
	registration Registration
	state        jobState
	// agreed: a coordinator has registered it, on this stream or on one before.
	agreed bool
	// refusal is the last one, as received.
	refusal *End
	offerAt time.Duration
	// differences are where its config differs from the store, as last reported.
	differences string
	// props are as last received; they outlive the stream.
	props map[string]string
}

func (j *job) inAgreement() bool {
	return j.agreed && j.state != jobShutDown
}

// jobs are those of this worker, and the state of each at the coordinators.
type jobs struct {
	*output
	send   func(*pb.SessionRequest)
	all    []*job
	byName map[string]*job
}

func newJobs(registrations []Registration, out *output, send func(*pb.SessionRequest)) *jobs {
	j := &jobs{output: out, send: send, byName: make(map[string]*job)}
	for _, registration := range registrations {
		added := &job{registration: registration, offerAt: never}
		j.all = append(j.all, added)
		j.byName[registration.Job] = added
	}
	return j
}

// ---- for Hello and for Triggers

func (j *jobs) agreed() []string {
	return j.names(true)
}

// onlyAsked: it is not known whether their coordinator received these, and runs that it assigned take slots here.
func (j *jobs) onlyAsked() []string {
	return j.names(false)
}

func (j *jobs) names(inAgreement bool) []string {
	var names []string
	for _, job := range j.all {
		if job.inAgreement() == inAgreement {
			names = append(names, job.registration.Job)
		}
	}
	return names
}

func (j *jobs) serves(name string) bool {
	job := j.byName[name]
	return job != nil && (job.state == jobAsked || job.state == jobRegistered)
}

func (j *jobs) props(name string) map[string]string {
	if job := j.byName[name]; job != nil {
		return job.props
	}
	return nil
}

// ---- frames to the coordinator

// registerAll comes after every Welcome.
func (j *jobs) registerAll() {
	for _, job := range j.all {
		job.offerAt = never
		// The previous coordinator may have died before it handled the Unregister.
		if job.state == jobShutDown {
			j.giveUp(job)
		} else {
			j.register(job)
		}
	}
}

func (j *jobs) offerAgain(boot time.Duration) {
	for _, job := range j.all {
		if boot >= job.offerAt {
			j.register(job)
		}
	}
}

func (j *jobs) offerNoMore() {
	for _, job := range j.all {
		job.offerAt = never
	}
}

func (j *jobs) nextOffer() time.Duration {
	next := never
	for _, job := range j.all {
		next = min(next, job.offerAt)
	}
	return next
}

func (j *jobs) register(job *job) {
	job.state = jobAsked
	job.offerAt = never
	r := job.registration
	j.send(&pb.SessionRequest{Frame: &pb.SessionRequest_Register{Register: &pb.Register{
		Job: r.Job, HandlerType: r.HandlerType, Config: r.Config, Overwrite: r.Overwrite,
	}}})
}

// giveUp: items may have been given to this worker after the shutdown was decided.
func (j *jobs) giveUp(job *job) {
	j.send(&pb.SessionRequest{Frame: &pb.SessionRequest_Unregister{
		Unregister: &pb.Unregister{Job: job.registration.Job},
	}})
}

// ---- frames from the coordinator

// registered reports whether the frame is about a job of this worker.
func (j *jobs) registered(registered *pb.Registered) bool {
	job := j.byName[registered.GetJob()]
	if job == nil || job.state == jobShutDown {
		return false
	}
	job.state = jobRegistered
	job.agreed = true
	job.refusal = nil
	job.offerAt = never
	j.warnOfDifferences(job, registered.GetConfigDifferences())
	name := registered.GetJob()
	next := "no scheduled time to come"
	if in := registered.GetNextFireIn(); in != nil {
		next = fmt.Sprintf("next fire in %ds", in.GetSeconds())
	}
	j.note(slog.LevelInfo, fmt.Sprintf("job %s: %d items, %s", name, registered.GetShardingTotalCount(), next), slog.String("job", name))
	return true
}

// warnOfDifferences warns that the config of this worker has no effect, once for each set of differences.
func (j *jobs) warnOfDifferences(job *job, found []*pb.ConfigDifference) {
	texts := make([]string, 0, len(found))
	for _, difference := range found {
		texts = append(texts, fmt.Sprintf("%s is %s in the store and %s here",
			difference.GetField(), valueOrNone(difference.Stored), valueOrNone(difference.Offered)))
	}
	differences := strings.Join(texts, ", ")
	known := job.differences
	job.differences = differences
	if differences == "" || differences == known {
		return
	}
	name := job.registration.Job
	j.note(slog.LevelWarn, fmt.Sprintf("the config of job %s is ignored, since the job exists: %s; "+
		"register it with overwrite, or change the job by `rosterd jobs apply`", name, differences), slog.String("job", name))
}

func valueOrNone(value *string) string {
	if value == nil {
		return "(none)"
	}
	return *value
}

func (j *jobs) refused(boot time.Duration, refused *pb.Refused) {
	job := j.byName[refused.GetJob()]
	if job == nil || job.state == jobShutDown {
		return
	}
	refusal := End{How: Refused, Job: refused.GetJob(), Code: refused.GetCode(), Detail: refused.GetMessage()}
	if job.refusal == nil || *job.refusal != refusal {
		text := fmt.Sprintf("job %s was refused: %s: %s (offered again from time to time)", refusal.Job, refusal.Code, refusal.Detail)
		j.note(slog.LevelError, text, slog.String("job", refusal.Job), slog.String("code", refusal.Code))
	}
	job.state = jobRefused
	job.offerAt = after(boot, offerAgain)
	job.refusal = &refusal
}

func (j *jobs) shutDown(name, message string) {
	job := j.byName[name]
	if job == nil {
		return
	}
	j.note(slog.LevelWarn, fmt.Sprintf("an operator shut %s down here: %s", name, message), slog.String("job", name))
	job.state = jobShutDown
	job.offerAt = never
	j.giveUp(job)
}

func (j *jobs) assigned(assignment *pb.Assignment) {
	job := j.byName[assignment.GetJob()]
	if job == nil {
		return
	}
	job.props = assignment.GetProps()
	j.note(slog.LevelDebug, fmt.Sprintf("items of %s: %v", assignment.GetJob(), assignment.GetItems()), slog.String("job", assignment.GetJob()))
}

// ---- no job is left

func (j *jobs) noneLeft() bool {
	for _, job := range j.all {
		if job.state != jobRefused && job.state != jobShutDown {
			return false
		}
	}
	return true
}

// end is how the worker then ends: by the first refused job, if there is one.
func (j *jobs) end() End {
	for _, job := range j.all {
		if job.state == jobRefused {
			return *job.refusal
		}
	}
	return End{How: Left}
}

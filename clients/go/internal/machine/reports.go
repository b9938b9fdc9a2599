package machine

import (
	"fmt"
	"log/slog"

	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// dueReports are the reports to send on this stream now; at most credits of them may be unacknowledged.
func (f *inFlight) dueReports(stream uint64, credits int) []*pb.RunCompleted {
	if stream != f.stream {
		f.stream = stream
		f.underWay = 0
		f.unsent = newOrdered[Key, *inFlightRun]()
		for key, run := range f.runs.all() {
			if run.report != nil {
				f.unsent.put(key, run)
			}
		}
	}
	var due []*pb.RunCompleted
	for key, run := range f.unsent.all() {
		if f.underWay >= credits {
			break
		}
		f.unsent.delete(key)
		f.underWay++
		due = append(due, run.report)
	}
	return due
}

func (f *inFlight) acknowledged(ack *pb.ReportAck) {
	key := keyOf(ack.GetRun())
	run, known := f.runs.get(key)
	if !known || run.report == nil {
		return
	}
	f.runs.delete(key)
	if !f.unsent.delete(key) {
		f.underWay--
	}
	if ack.GetResult() == pb.ReportResult_REPORT_RESULT_ACCEPTED {
		return
	}
	why := ack.GetCode() + ": " + ack.GetMessage()
	if ack.GetResult() != pb.ReportResult_REPORT_RESULT_INVALID || run.replaces {
		f.note(slog.LevelWarn, fmt.Sprintf("the report of %v was not accepted: %s", key, why), key.Attrs()...)
		return
	}
	f.note(slog.LevelError, fmt.Sprintf("the report of %v was refused, it is reported as failed: %s", key, why), key.Attrs()...)
	run.report = run.instead(why)
	run.replaces = true
	f.runs.put(key, run)
	f.unsent.put(key, run)
}

package vectors

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// effect is one of the machine in the words of the vectors: the name of a frame or the key of another effect, and a frame, a map
// of fields, a text or a number.
type effect struct {
	kind  string
	value any
	at    time.Duration
}

func (e effect) String() string {
	if message, is := e.value.(proto.Message); is {
		return fmt.Sprintf("%v: %s %v", e.at, e.kind, message)
	}
	return fmt.Sprintf("%v: %s %v", e.at, e.kind, e.value)
}

// effectOf returns false for any other output of a machine.
func effectOf(found machine.Effect) (effect, bool) {
	switch found := found.(type) {
	case machine.Open:
		return effect{kind: "connect", value: found.Address}, true
	case machine.Close:
		return effect{kind: "close", value: int(found.Stream)}, true
	case machine.Send:
		sent := found.Frame.ProtoReflect()
		field := sent.WhichOneof(sent.Descriptor().Oneofs().ByName("frame"))
		return effect{kind: string(field.Name()), value: sent.Get(field).Message().Interface()}, true
	case machine.StartRun:
		return effect{kind: "start", value: fields{
			"run": text(refKey(found.Key)), "attempt": int(found.Attempt), "offset": string(found.Offset),
			"item_parameter": found.Trigger.GetItemParameter(), "job_parameter": found.Trigger.GetJobParameter(),
			"props": found.Props, "instance_id": found.InstanceID,
		}}, true
	case machine.StopRun:
		return effect{kind: "stop", value: fields{"run": refKey(found.Key), "reason": reasonName(found.Reason)}}, true
	case machine.StartCallback:
		callback := found.Callback
		kind := callback.GetKind()
		return effect{kind: "callback", value: fields{
			"callback_id": callback.GetCallbackId(), "job": callback.GetJob(), "kind": shortName(kind.Descriptor(), kind.Number()),
		}}, true
	case machine.Finish:
		return effect{kind: "finish", value: howName(found.End.How)}, true
	default:
		return effect{}, false
	}
}

func refKey(key machine.Key) string {
	return refText(&pb.RunRef{Job: key.Job, Item: key.Item.Item, Token: key.Token})
}

func reasonName(reason machine.StopReason) string {
	switch reason {
	case machine.StopOperator:
		return "operator"
	case machine.StopTimedOut:
		return "timed_out"
	case machine.StopLeaving:
		return "leaving"
	case machine.StopLease:
		return "lease"
	default:
		return "fenced"
	}
}

func howName(how machine.How) string {
	return map[machine.How]string{
		machine.Left: "left", machine.Unacknowledged: "unacknowledged", machine.Refused: "refused",
		machine.Rejected: "rejected", machine.Killed: "killed",
	}[how]
}

// wanted is an effect that a step expects.
type wanted struct {
	kind     string
	value    any
	from, to time.Duration
}

func wantedOf(entry fields, at time.Duration) wanted {
	w := wanted{from: at, to: at}
	for name, value := range entry {
		switch value := value.(type) {
		case []any:
			w.from, w.to = millis(value[0]), millis(value[1])
			continue
		case fields:
			if name == "send" {
				for frame, said := range value {
					w.kind, w.value = frame, said
				}
				continue
			}
		case int:
			if name == "at" {
				w.from, w.to = millis(value), millis(value)
				continue
			}
		}
		w.kind, w.value = name, value
	}
	return w
}

// compare: per kind the effects come in the listed order, and there are no others.
func compare(found []effect, expected []any, at time.Duration, inOrder bool) error {
	byKind := func(effects []effect, kind string) (of []effect) {
		for _, one := range effects {
			if inOrder || one.kind == kind {
				of = append(of, one)
			}
		}
		return of
	}
	taken := map[string]int{}
	for _, entry := range expected {
		want := wantedOf(entry.(fields), at)
		place := want.kind
		if inOrder {
			place = ""
		}
		of := byKind(found, want.kind)
		if taken[place] >= len(of) {
			return fmt.Errorf("%s %v does not come; there are %v", want.kind, want.value, found)
		}
		got := of[taken[place]]
		taken[place]++
		if got.kind != want.kind {
			return fmt.Errorf("%v comes instead of %s %v", got, want.kind, want.value)
		}
		if got.at < want.from-time.Millisecond || got.at > want.to+time.Millisecond {
			return fmt.Errorf("%v does not come between %v and %v", got, want.from, want.to)
		}
		if err := matches(want.value, got.value); err != nil {
			return fmt.Errorf("%v is not %v: %w", got, want.value, err)
		}
	}
	if len(found) != len(expected) {
		return fmt.Errorf("%d effects are expected, there are %d: %v", len(expected), len(found), found)
	}
	return nil
}

// matches compares an expectation with an effect's value.
func matches(want, got any) error {
	switch got := got.(type) {
	case proto.Message:
		said, _ := want.(fields)
		return messageMatches(said, got.ProtoReflect())
	case fields:
		for name, value := range want.(fields) {
			if err := matches(value, got[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case map[string]string:
		return mapMatches(want, got)
	case string:
		return textMatches(want, got)
	case int:
		return numberMatches(want, int64(got))
	default:
		return fmt.Errorf("%v cannot be compared", got)
	}
}

func messageMatches(want fields, got protoreflect.Message) error {
	for name, value := range want {
		field := got.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			return fmt.Errorf("%s has no field %s", got.Descriptor().FullName(), name)
		}
		if err := fieldMatches(field, value, got); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func fieldMatches(field protoreflect.FieldDescriptor, want any, message protoreflect.Message) error {
	value := message.Get(field)
	if want == nil {
		if message.Has(field) {
			return fmt.Errorf("%v is set", value)
		}
		return nil
	}
	switch {
	case field.IsMap():
		found := map[string]string{}
		value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
			found[key.String()] = value.String()
			return true
		})
		return mapMatches(want, found)
	case field.IsList():
		return listMatches(field, want.([]any), value.List())
	case field.Message() != nil:
		return nestedMatches(want, value.Message().Interface())
	case field.Kind() == protoreflect.EnumKind:
		if number, is := want.(int); is {
			return numberMatches(number, int64(value.Enum()))
		}
		return textMatches(want, shortName(field.Enum(), value.Enum()))
	case field.Kind() == protoreflect.StringKind:
		return textMatches(want, value.String())
	case field.Kind() == protoreflect.BytesKind:
		return textMatches(want, string(value.Bytes()))
	case field.Kind() == protoreflect.BoolKind:
		if want != any(value.Bool()) {
			return fmt.Errorf("%v is not %v", value, want)
		}
		return nil
	default:
		return numberMatches(want, int64(value.Uint()))
	}
}

func nestedMatches(want any, got proto.Message) error {
	within := func(difference time.Duration) error {
		if difference.Abs() > time.Millisecond {
			return fmt.Errorf("it is off by %v", difference)
		}
		return nil
	}
	switch got := got.(type) {
	case interface{ AsDuration() time.Duration }:
		return within(got.AsDuration() - millis(want))
	case interface{ AsTime() time.Time }:
		return within(got.AsTime().Sub(wall.Add(millis(want))))
	case *pb.RunRef:
		return textMatches(want, refText(got))
	default:
		return messageMatches(want.(fields), got.ProtoReflect())
	}
}

// listMatches: lists of runs and of names have no order.
func listMatches(field protoreflect.FieldDescriptor, want []any, got protoreflect.List) error {
	var found []string
	for i := range got.Len() {
		if field.Message() != nil {
			found = append(found, refText(got.Get(i).Message().Interface().(*pb.RunRef)))
		} else {
			found = append(found, got.Get(i).String())
		}
	}
	expected := []string{}
	for _, one := range want {
		expected = append(expected, fmt.Sprint(one))
	}
	slices.Sort(found)
	slices.Sort(expected)
	if !slices.Equal(found, expected) {
		return fmt.Errorf("%v is not %v", found, expected)
	}
	return nil
}

func mapMatches(want any, got map[string]string) error {
	said, _ := want.(fields)
	for name, value := range said {
		if got[name] != text(value) {
			return fmt.Errorf("%s is %q", name, got[name])
		}
	}
	if len(said) != len(got) {
		return fmt.Errorf("%v is not %v", got, said)
	}
	return nil
}

func textMatches(want any, got string) error {
	switch want := want.(type) {
	case fields:
		if part, is := want["contains"]; is {
			if strings.Contains(got, text(part)) {
				return nil
			}
			return fmt.Errorf("%q does not contain %q", got, part)
		}
		if length, is := want["bytes"]; is {
			return numberMatches(length, int64(len(got)))
		}
		if got != text(want) {
			return fmt.Errorf("%.40q is not %v", got, want)
		}
	default:
		if got != text(want) {
			return fmt.Errorf("%q is not %q", got, want)
		}
	}
	return nil
}

func numberMatches(want any, got int64) error {
	good := false
	switch want := want.(type) {
	case int:
		good = got == int64(want)
	case fields:
		good = true
		if least, is := want["at_least"]; is {
			good = got >= int64(least.(int))
		}
		if most, is := want["at_most"]; is {
			good = good && got <= int64(most.(int))
		}
	}
	if !good {
		return fmt.Errorf("%d is not %v", got, want)
	}
	return nil
}

package vectors

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rosterd/rosterd/clients/go/internal/machine"
	pb "github.com/rosterd/rosterd/clients/go/rosterdpb"
)

// ---- values

func millis(value any) time.Duration {
	return time.Duration(value.(int)) * time.Millisecond
}

func texts(value any) []string {
	var found []string
	for _, one := range value.([]any) {
		found = append(found, text(one))
	}
	return found
}

// text may be written as a number of repetitions.
func text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	case fields:
		return strings.Repeat(value["repeat"].(string), value["times"].(int))
	default:
		panic(fmt.Sprintf("%v is no text", value))
	}
}

func number(value any) int {
	if value == nil {
		return 0
	}
	return value.(int)
}

func key(value any) machine.Key {
	ref := refOf(value)
	return machine.Key{Item: machine.Item{Job: ref.GetJob(), Item: ref.GetItem()}, Token: ref.GetToken()}
}

func refOf(value any) *pb.RunRef {
	parts := strings.Split(value.(string), "/")
	item, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil {
		panic(err)
	}
	token, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		panic(err)
	}
	return &pb.RunRef{Job: parts[0], Item: uint32(item), Token: token}
}

func refText(ref *pb.RunRef) string {
	return fmt.Sprintf("%s/%d/%d", ref.GetJob(), ref.GetItem(), ref.GetToken())
}

// ---- events

func eventOf(step fields, stream uint64) (event machine.Event, isLost bool) {
	for name, value := range step {
		given, _ := value.(fields)
		switch name {
		case "start":
			return machine.Start{}, false
		case "opened":
			return machine.Opened{Stream: stream}, false
		case "lost":
			return machine.Lost{Stream: stream, Code: text(given["code"]), Detail: "as the vector says"}, true
		case "frame":
			return machine.Received{Stream: stream, Frame: frame(given)}, false
		case "time":
			return machine.Tick{}, false
		case "ended":
			return machine.Ended{Key: key(given["run"]), Ending: endingOf(given)}, false
		case "progress":
			said := machine.Progress{Percent: uint32(number(given["percent"])), Message: text(given["message"])}
			return machine.Progressed{Key: key(given["run"]), Progress: said}, false
		case "offset":
			return machine.OffsetSet{Key: key(given["run"]), Offset: []byte(text(given["offset"]))}, false
		case "found_expired":
			return machine.Expired{Key: key(given["run"])}, false
		case "callback_ended":
			return machine.CallbackEnded{ID: text(given["callback_id"]), Error: text(given["error"])}, false
		case "leave":
			return machine.Leave{Grace: -1}, false
		case "kill":
			return machine.Quit{}, false
		case "at", "stream", "asleep", "acknowledge", "unlisted", "in_order", "expect":
		default:
			panic("no such event: " + name)
		}
	}
	panic(fmt.Sprintf("%v has no event", step))
}

func endingOf(given fields) machine.Ending {
	kinds := map[string]machine.EndKind{
		"succeeded": machine.Returned, "failed": machine.Failed, "fatal": machine.Fatal, "cancelled": machine.Cancelled,
	}
	kind, known := kinds[given["result"].(string)]
	if !known {
		panic(fmt.Sprintf("no such result: %v", given["result"]))
	}
	ending := machine.Ending{
		Kind: kind, Output: text(given["output"]), Error: text(given["error"]),
		Processed: uint64(number(given["processed"])), Failed: uint64(number(given["failed"])),
	}
	if offset, is := given["offset"]; is {
		ending.Offset = []byte(text(offset))
	}
	return ending
}

// frame is one from the coordinator, with the defaults of the vectors.
func frame(given fields) *pb.SessionResponse {
	response := new(pb.SessionResponse)
	for name, value := range given {
		if name == "unknown" {
			continue
		}
		said := defaults(name)
		own, _ := value.(fields)
		if id, is := own["worker_id"]; is && name == "welcome" {
			said["instance_id"], said["resume_key"] = "here@-@"+text(id), "key of "+text(id)
		}
		for field, value := range own {
			said[field] = value
		}
		message := response.ProtoReflect()
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			panic("no such frame: " + name)
		}
		fill(message.Mutable(field).Message(), said)
	}
	return response
}

func defaults(name string) fields {
	switch name {
	case "welcome":
		return fields{
			"worker_id": "w1", "instance_id": "here@-@w1", "resume_key": "key of w1", "lease": 5000,
			"heartbeat_interval": 1000, "stop_budget": 500, "max_unacknowledged_reports": 64,
		}
	case "trigger":
		return fields{
			"attempt": 1, "max_attempts": 1, "sharding_total_count": 3, "source": "NORMAL_TRIGGER", "kind": "SIMPLE",
		}
	case "report_ack":
		return fields{"result": "ACCEPTED"}
	case "cancel":
		return fields{"reason": "OPERATOR"}
	default:
		return fields{}
	}
}

func fill(message protoreflect.Message, said fields) {
	for name, value := range said {
		if value == nil {
			continue
		}
		field := message.Descriptor().Fields().ByName(protoreflect.Name(name))
		if field == nil {
			panic(fmt.Sprintf("%s has no field %s", message.Descriptor().FullName(), name))
		}
		switch {
		case field.IsMap():
			entries := message.Mutable(field).Map()
			for key, value := range value.(fields) {
				entries.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(text(value)))
			}
		case field.IsList():
			list := message.Mutable(field).List()
			for _, one := range value.([]any) {
				if field.Message() != nil {
					list.Append(protoreflect.ValueOfMessage(messageOf(field.Message(), one, list.NewElement().Message())))
				} else {
					list.Append(scalar(field, one))
				}
			}
		case field.Message() != nil:
			message.Set(field, protoreflect.ValueOfMessage(messageOf(field.Message(), value, message.NewField(field).Message())))
		default:
			message.Set(field, scalar(field, value))
		}
	}
}

func messageOf(kind protoreflect.MessageDescriptor, value any, fresh protoreflect.Message) protoreflect.Message {
	var made proto.Message
	switch kind.FullName() {
	case "google.protobuf.Duration":
		made = durationpb.New(millis(value))
	case "google.protobuf.Timestamp":
		made = timestamppb.New(wall.Add(millis(value)))
	case "rosterd.v1.RunRef":
		made = refOf(value)
	default:
		fill(fresh, value.(fields))
		return fresh
	}
	return made.ProtoReflect()
}

func scalar(field protoreflect.FieldDescriptor, value any) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.EnumKind:
		if name, is := value.(string); is {
			return protoreflect.ValueOfEnum(enumNumber(field.Enum(), name))
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(value.(int)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(value))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(text(value)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(value.(bool))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(value.(int)))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(value.(int)))
	default:
		panic(fmt.Sprintf("%s: no such kind", field.FullName()))
	}
}

// enumNumber finds a value by its name without the prefix that all values of the enum have.
func enumNumber(enum protoreflect.EnumDescriptor, name string) protoreflect.EnumNumber {
	for i := range enum.Values().Len() {
		if value := enum.Values().Get(i); shortName(enum, value.Number()) == name {
			return value.Number()
		}
	}
	panic(fmt.Sprintf("%s has no %s", enum.FullName(), name))
}

func shortName(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return strconv.Itoa(int(number))
	}
	prefix := strings.TrimSuffix(string(enum.Values().Get(0).Name()), "UNSPECIFIED")
	return strings.TrimPrefix(string(value.Name()), prefix)
}

// Command generate writes package rosterdpb from the repository's proto/. Run it in this module's folder:
//
//	go run ./generate          # writes ../rosterdpb
//	go run ./generate -check   # says whether it is fresh
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "../../../proto"
	module = "github.com/rosterd/rosterd/clients/go"
	folder = "rosterdpb"
)

// files are those that a client needs; they name no Go package, which other languages do not need.
var files = []string{"rosterd/v1/types.proto", "rosterd/v1/worker.proto"}

func main() {
	check := flag.Bool("check", false, "say whether what is committed is fresh")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(check bool) error {
	made, err := generate()
	if err != nil {
		return err
	}
	for name, text := range made {
		path := filepath.Join("..", name)
		if !check {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				return err
			}
			continue
		}
		if found, err := os.ReadFile(path); err != nil || !bytes.Equal(found, text) {
			return fmt.Errorf("%s is not what proto/ says now: `go run ./generate` in clients/go/tools", name)
		}
	}
	return nil
}

// generate gives the content of each file by its path in the client's module.
func generate() (map[string][]byte, error) {
	request, err := describe()
	if err != nil {
		return nil, err
	}
	made := make(map[string][]byte)
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		response, err := ask(plugin, request)
		if err != nil {
			return nil, err
		}
		for _, file := range response.GetFile() {
			made[file.GetName()] = []byte(file.GetContent())
		}
	}
	return made, nil
}

// describe compiles the files to the input of a protoc plugin.
func describe() (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{source}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	parameters := []string{"module=" + module}
	for _, name := range files {
		parameters = append(parameters, fmt.Sprintf("M%s=%s/%s", name, module, folder))
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: files,
		Parameter:      proto.String(strings.Join(parameters, ",")),
	}
	seen := make(map[string]bool)
	for _, file := range compiled {
		request.ProtoFile = withImports(request.ProtoFile, file, seen)
	}
	return request, nil
}

// withImports adds a file after those that it imports.
func withImports(
	to []*descriptorpb.FileDescriptorProto, file protoreflect.FileDescriptor, seen map[string]bool,
) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return to
	}
	seen[file.Path()] = true
	for i := range file.Imports().Len() {
		to = withImports(to, file.Imports().Get(i).FileDescriptor, seen)
	}
	return append(to, protoutil.ProtoFromFileDescriptor(file))
}

func ask(plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", "tool", plugin)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plugin, err)
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", plugin, response.GetError())
	}
	return response, nil
}

package fence_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rosterd/rosterd/clients/go"
	"github.com/rosterd/rosterd/clients/go/fence"
)

const (
	older = 9_007_199_254_740_993
	newer = 9_007_199_254_740_994
	short = 999_999_999_999_999
)

func run(token int64) *rosterd.Run {
	return &rosterd.Run{Job: "hello", Token: token}
}

func fenced(t *testing.T, err error, seen int64) {
	t.Helper()
	var found *fence.FencedError
	if !errors.As(err, &found) || !errors.Is(err, fence.ErrFenced) || found.Seen != seen {
		t.Errorf("the error is %v", err)
	}
}

func good(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ---- S3

// bucket answers PutObject and HeadObject as S3 does: each is atomic, and conditional on the current ETag.
type bucket struct {
	mutex       sync.Mutex
	body, token string
	etag        string
	puts        int
}

func (b *bucket) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch request.Method {
	case http.MethodHead:
		if b.etag == "" {
			response.WriteHeader(http.StatusNotFound)
			return
		}
		response.Header().Set("ETag", b.etag)
		response.Header().Set("x-amz-meta-"+fence.TokenMetadata, b.token)
	case http.MethodPut:
		none, match := request.Header.Get("If-None-Match"), request.Header.Get("If-Match")
		if (none == "*" && b.etag != "") || (match != "" && match != b.etag) || none+match == "" {
			response.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			response.WriteHeader(http.StatusBadRequest)
			return
		}
		b.puts++
		b.body, b.etag = string(body), fmt.Sprintf("%q", fmt.Sprint(b.puts))
		b.token = request.Header.Get("x-amz-meta-" + fence.TokenMetadata)
	}
}

// store makes the two requests over HTTP, like a program without an SDK.
type store struct {
	url string
	// between runs between head and put, once.
	between func()
}

func (s *store) Head(ctx context.Context, key string) (*fence.ObjectHead, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, s.url+"/"+key, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	return &fence.ObjectHead{ETag: response.Header.Get("ETag"), Token: response.Header.Get("x-amz-meta-" + fence.TokenMetadata)}, nil
}

func (s *store) Put(ctx context.Context, key string, body []byte, ifMatch string, metadata map[string]string) (bool, error) {
	if between := s.between; between != nil {
		s.between = nil
		between()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, s.url+"/"+key, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	if ifMatch == "" {
		request.Header.Set("If-None-Match", "*")
	} else {
		request.Header.Set("If-Match", ifMatch)
	}
	for name, value := range metadata {
		request.Header.Set("x-amz-meta-"+name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

func objectOf(t *testing.T) (*bucket, *store, fence.Object) {
	t.Helper()
	b := new(bucket)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	s := &store{url: server.URL}
	return b, s, fence.Object{Store: s, Key: "report"}
}

func TestAnObjectThatANewerRunPutsBetweenLookAndPutIsKept(t *testing.T) {
	b, s, object := objectOf(t)
	ctx := t.Context()
	good(t, object.Put(ctx, []byte("first"), run(older)))
	s.between = func() { good(t, object.Put(ctx, []byte("newer"), run(newer))) }
	fenced(t, object.Put(ctx, []byte("late"), run(older)), newer)
	if b.body != "newer" {
		t.Errorf("the body is %q", b.body)
	}
	s.between = func() { good(t, object.Put(ctx, []byte("again"), run(newer))) }
	good(t, object.Put(ctx, []byte("last"), run(newer)))
	if b.body != "last" {
		t.Errorf("the body is %q", b.body)
	}
}

func TestTwoRunsThatBothFindNothingDoNotBothCreate(t *testing.T) {
	b, s, object := objectOf(t)
	s.between = func() { good(t, object.Put(t.Context(), []byte("newer"), run(newer))) }
	fenced(t, object.Put(t.Context(), []byte("late"), run(older)), newer)
	if b.body != "newer" {
		t.Errorf("the body is %q", b.body)
	}
}

// ---- files

func TestWhatANewerRunHasWrittenIsWhatIsReadAndAnOlderOneIsRefused(t *testing.T) {
	folder := t.TempDir()
	file := fence.File{Path: filepath.Join(folder, "report.csv")}
	if _, err := file.Read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	good(t, file.Write([]byte("short"), run(short)))
	good(t, file.Write([]byte("old"), run(older)))
	good(t, file.Write([]byte("new"), run(newer)))
	fenced(t, file.Write([]byte("late"), run(older)), newer)
	reads(t, file, "new")
	entries, err := os.ReadDir(folder)
	good(t, err)
	if len(entries) != 1 || entries[0].Name() != "report.csv.0009007199254740994" {
		t.Errorf("%v", entries)
	}
	good(t, file.Write([]byte("new again"), run(newer)))
	reads(t, file, "new again")
}

func TestARunThatWakesWithItsRenameStillToComeMakesANameThatNobodyReads(t *testing.T) {
	folder := t.TempDir()
	file := fence.File{Path: filepath.Join(folder, "report.csv")}
	good(t, file.Write([]byte("new"), run(newer)))
	// As if it had slept: it has passed all its checks.
	for _, name := range []string{"report.csv.0009007199254740993", "report.csv.bak", "report.csv.+009007199254740999"} {
		good(t, os.WriteFile(filepath.Join(folder, name), []byte("late"), 0o600))
	}
	reads(t, file, "new")
}

func reads(t *testing.T, file fence.File, want string) {
	t.Helper()
	content, err := file.Read()
	good(t, err)
	if string(content) != want {
		t.Errorf("the content is %q", content)
	}
}

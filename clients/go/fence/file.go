package fence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/rosterd/rosterd/clients/go"
)

// digits: 63 bits have 19.
const digits = 19

// File is one file that runs of an item write as a whole: each run writes its own name, which ends in its token
// (PATH.0000000000000000005); readers use the highest token. A run that resumes after another has taken its place can
// only create a name that is no longer read. No lock is needed, so a process that dies leaves none behind, and a
// sleeping one does not appear to hold one.
type File struct {
	Path string
}

// Write returns a *FencedError if a run with a higher token has written the file. Older content is removed. Readers see the old
// content or the new.
func (f File) Write(content []byte, run *rosterd.Run) error {
	if err := f.judge(run); err != nil {
		return err
	}
	own := f.name(run.Token)
	if err := replace(own, content); err != nil {
		return err
	}
	// A newer run may have written meanwhile: then readers ignore ours.
	if err := f.judge(run); err != nil {
		return err
	}
	tokens, err := f.tokens()
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if token < run.Token {
			if err := os.Remove(f.name(token)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Current is the path of the current content; empty: none was written. A newer write may remove it.
func (f File) Current() (string, error) {
	tokens, err := f.tokens()
	if err != nil || len(tokens) == 0 {
		return "", err
	}
	return f.name(tokens[len(tokens)-1]), nil
}

// Read is the current content; fs.ErrNotExist: none was written.
func (f File) Read() ([]byte, error) {
	for {
		path, err := f.Current()
		if err != nil {
			return nil, err
		}
		if path == "" {
			return nil, &fs.PathError{Op: "read", Path: f.Path, Err: fs.ErrNotExist}
		}
		content, err := os.ReadFile(path)
		// It was replaced between the two steps: there is a newer one.
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
}

func (f File) judge(run *rosterd.Run) error {
	tokens, err := f.tokens()
	if err != nil || len(tokens) == 0 {
		return err
	}
	if seen := tokens[len(tokens)-1]; seen > run.Token {
		return &FencedError{What: "file " + f.Path, Token: run.Token, Seen: seen}
	}
	return nil
}

// tokens are those of the file's names, ascending.
func (f File) tokens() ([]int64, error) {
	entries, err := os.ReadDir(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	var tokens []int64
	for _, entry := range entries {
		ending, is := strings.CutPrefix(entry.Name(), filepath.Base(f.Path)+".")
		if !is || len(ending) != digits {
			continue
		}
		if token, err := strconv.ParseUint(ending, 10, 63); err == nil {
			tokens = append(tokens, int64(token))
		}
	}
	slices.Sort(tokens)
	return tokens, nil
}

func (f File) name(token int64) string {
	return fmt.Sprintf("%s.%0*d", f.Path, digits, token)
}

// replace writes a file atomically: after a crash it is complete, or not there.
func replace(path string, content []byte) error {
	unfinished := path + ".new"
	defer func() { _ = os.Remove(unfinished) }()
	if err := writeDurably(unfinished, content); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func writeDurably(path string, content []byte) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Sync()
}

func syncFolder(path string) (err error) {
	if runtime.GOOS == "windows" {
		// Windows cannot sync a folder, and writes a rename through by itself.
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return folder.Sync()
}

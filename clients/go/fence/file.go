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

// File is one file that runs of an item write as a whole: each run writes a name of its own, which ends in its token
// (PATH.0000000000000000005), and the highest token is the file. A run that wakes after another has taken its place can only
// make a name that nobody reads any more. No lock is needed, so none is left behind by a process that dies, or is believed to be
// held by one that sleeps.
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
	// A newer run may have come meanwhile: nobody reads ours then.
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

// Current is the path of the content that counts now; empty: none was written. It may be removed by a newer write.
func (f File) Current() (string, error) {
	tokens, err := f.tokens()
	if err != nil || len(tokens) == 0 {
		return "", err
	}
	return f.name(tokens[len(tokens)-1]), nil
}

// Read is the content that counts now; fs.ErrNotExist: none was written.
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
		// Replaced between the two: then there is a newer one.
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

// tokens that the file has names of, in rising order.
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

// replace writes a file so that after a crash it is there as a whole, or not.
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
		// There a folder cannot be synced, and a rename is written through by itself.
		return nil
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	return folder.Sync()
}

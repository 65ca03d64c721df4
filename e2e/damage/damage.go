// Package damage breaks files like failing disks, operators and power cuts.
package damage

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Kinds are the ways to damage a file, by name.
var Kinds = map[string]func(t testing.TB, path string){
	"delete":      remove,
	"half":        func(t testing.TB, path string) { truncate(t, path, size(t, path)/2) },
	"empty":       func(t testing.TB, path string) { truncate(t, path, 0) },
	"first page":  func(t testing.TB, path string) { overwrite(t, path, 0, make([]byte, page)) },
	"middle page": func(t testing.TB, path string) { overwrite(t, path, size(t, path)/2/page*page, make([]byte, page)) },
	"flip bytes":  flip,
	"no permission": func(t testing.TB, path string) {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	},
	// The same for root, whom file modes do not stop.
	"a directory": func(t testing.TB, path string) {
		remove(t, path)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	},
}

// page is the unit in which databases and disks write, in bytes.
const page = 4096

// Files returns the paths, relative to dir, of all files below it.
func Files(t testing.TB, dir string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			path, err = filepath.Rel(dir, path)
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func remove(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func truncate(t testing.TB, path string, to int64) {
	t.Helper()
	if err := os.Truncate(path, to); err != nil {
		t.Fatal(err)
	}
}

// overwrite replaces a part of a file without making it longer.
func overwrite(t testing.TB, path string, at int64, with []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	with = with[:min(int64(len(with)), size(t, path)-at)]
	if _, err := f.WriteAt(with, at); err != nil {
		t.Fatal(err)
	}
}

// flip inverts 16 bytes after each quarter of a file.
func flip(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		at := len(data) * i / 4
		part := data[at:min(at+16, len(data))]
		for j := range part {
			part[j] ^= 0xff
		}
		overwrite(t, path, int64(at), part)
	}
}

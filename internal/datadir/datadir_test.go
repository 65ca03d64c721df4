package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestMake(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	open := filepath.Join(root, "open")
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{deep, deep, open} {
		if err := Make(dir); err != nil {
			t.Error(err)
		}
		if m := mode(t, dir); m != DirMode {
			t.Errorf("%s has mode %o, want %o", dir, m, DirMode)
		}
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if err := Make(dir); err == nil {
			t.Errorf("%s was made a directory", dir)
		}
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"first", "second"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if m := mode(t, path); m != FileMode {
		t.Errorf("mode %o, want %o", m, FileMode)
	}
	if err := Replace(filepath.Join(path, "below"), nil); err == nil {
		t.Error("a file was written below a file")
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".tmp-salts.json123", "salts.json", ".hidden"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(dir); err != nil {
		t.Fatal(err)
	}
	left, err := list(dir, func(string) bool { return true })
	if want := []string{filepath.Join(dir, ".hidden"), filepath.Join(dir, "salts.json")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left: %v, %v, want %v", left, err, want)
	}
	if err := Tidy(filepath.Join(dir, "missing")); err != nil {
		t.Error(err)
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Room(dir, 1<<16); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := Room(filepath.Join(dir, "missing"), 1); err == nil {
		t.Error("there is room in a directory that is missing")
	}
}

func TestSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "counts.db")
	now := time.Date(2026, 11, 20, 12, 0, 0, 5e6, time.UTC)
	for i := range 2 {
		for _, name := range []string{path, path + "-wal"} {
			if err := os.WriteFile(name, []byte{byte(i)}, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		aside, err := SetAside(now.Add(time.Duration(i)*time.Second), path, path+"-wal", path+"-shm")
		if err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(aside); err != nil || data[0] != byte(i) {
			t.Errorf("%s: %v, %v", aside, data, err)
		}
	}
	got, err := Aside(path)
	if want := []string{path + ".damaged-20261120T120000.005Z", path + ".damaged-20261120T120001.005Z"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("set aside: %v, %v, want %v", got, err, want)
	}
}

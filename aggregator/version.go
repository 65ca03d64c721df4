package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

const versionUsage = `Prints the version of this build.

Usage:

  aggregator version

`

func printVersion(args []string, t terminal) error {
	if err := parse(flags("aggregator version", versionUsage, t), args, false); err != nil {
		return err
	}
	version, revision := build()
	if revision != "" {
		version += " (" + revision + ")"
	}
	fmt.Fprintf(t.out, "hotboard %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return nil
}

// build returns the version of the module and the revision it was built from; each
// may be empty.
func build() (version, revision string) {
	version = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, ""
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ", modified"
		}
	}
	return version, revision + dirty
}

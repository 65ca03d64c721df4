package ruleset

import (
	"errors"
	"fmt"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset/configfile"
)

// Problem is one mistake in a configuration and its place. An error from
// [Compile] or [ParseYAML] holds all of them, see [configfile.Problems].
type Problem = configfile.Problem

// Compile validates a configuration, fills in defaults and compiles patterns. Its
// error joins a [*Problem] for every mistake. Compile does not modify the
// configuration, but the rules share memory with it: do not modify it afterwards.
func Compile(c Config) (*Rules, error) {
	var r Rules
	var problems problemList
	seen := make(map[string]int)
	for i, l := range c.Lists {
		at := problemList{path: fmt.Sprintf("lists[%d]", i)}
		if l == nil {
			problems.addf(at.path, "empty: a list needs a name")
			continue
		}
		r.Lists = append(r.Lists, compileList(l, &at))
		if first, ok := seen[l.Name]; ok && l.Name != "" {
			at.addf("name", "duplicate name %q: lists[%d] has it", l.Name, first)
		} else {
			seen[l.Name] = i
		}
		problems.errs = append(problems.errs, at.errs...)
	}
	names := make(map[string]int)
	for i, l := range c.Limits {
		at := problemList{path: fmt.Sprintf("limits[%d]", i)}
		if l == nil {
			problems.addf(at.path, "empty: a limit needs name, by and windows")
			continue
		}
		r.Limits = append(r.Limits, compileLimit(l, &at, c.Lists))
		if first, ok := names[l.Name]; ok && l.Name != "" {
			at.addf("name", "duplicate name %q: limits[%d] has it", l.Name, first)
		} else {
			names[l.Name] = i
		}
		problems.errs = append(problems.errs, at.errs...)
	}
	checkQuotas(&c, &problems)
	if c.Bots != nil {
		at := problemList{path: "bots"}
		r.Bots = compileBots(c.Bots, &at, c.Lists)
		problems.errs = append(problems.errs, at.errs...)
	}
	if len(problems.errs) > 0 {
		return nil, errors.Join(problems.errs...)
	}
	if err := r.setDocument(); err != nil {
		return nil, err
	}
	return &r, nil
}

// MustCompile is [Compile] for rules that are part of a program, such as those of
// a test. It panics if they have mistakes.
func MustCompile(c Config) *Rules {
	r, err := Compile(c)
	if err != nil {
		panic(err)
	}
	return r
}

// checkQuotas checks that a vote can name all quotas that it uses up.
func checkQuotas(c *Config, problems *problemList) {
	for i, list := range c.Lists {
		if list == nil || list.Votes == nil {
			continue
		}
		n := 0
		for _, l := range c.Limits {
			if l != nil && l.AppliesToList(list.Name) {
				for j := range l.Windows {
					if !l.Windows[j].IsRate() {
						n++
					}
				}
			}
		}
		if n > hit.MaxQuotas {
			problems.addf(fmt.Sprintf("lists[%d]", i), "%d calendar windows of limits apply to its votes, more than %d: restrict some by when.lists", n, hit.MaxQuotas)
		}
	}
}

// problemList collects problems below a path.
type problemList struct {
	path string
	errs []error
}

func (p *problemList) addf(path, format string, args ...any) {
	if p.path != "" {
		path = p.path + "." + path
	}
	p.errs = append(p.errs, &Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

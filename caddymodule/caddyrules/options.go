package caddyrules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hotboard/hotboard/ruleset/configfile"
)

// option is an option of a block.
type option struct {
	name  string
	read  reader
	usage string   // the error if read returns errUsage; default: Caddy's
	block []option // what may follow in a block; its paths begin at the same table
}

// reader puts the arguments of an option into a table. line[0] is the option
// itself.
type reader func(into *configfile.Node, line []*configfile.Node) error

// errUsage means that the arguments do not have the shape that a reader expects.
var errUsage = errors.New("wrong arguments")

const zeroBits = "0 bits would treat all addresses as one: remove ip from by"

// options are the options of each block, with the paths of their values.
var options = map[string][]option{
	"list": {
		{name: "page", read: more("pages")},
		{name: "id", read: id},
		{name: "status", read: words("statuses")},
		{name: "content_type", read: words("content_types")},
		{name: "published_header", read: word("published_header")},
		{
			name: "votes", read: words("votes.options"),
			usage: "name what can be voted for, or * for anything: votes <option...>",
			block: []option{
				{name: "opens", read: word("votes.opens")},
				{name: "closes", read: word("votes.closes")},
				{name: "require_user", read: toggle("votes.require_user")},
			},
		},
		{name: "dedup", read: word("dedup")},
		{name: "zone", read: word("zone")},
		{
			name: "weights", read: word("weights.pv", "weights.uv"),
			usage: "weights needs two numbers: the points of a view, and the extra points of a unique view",
		},
		{
			name: "score", read: word("score.model"),
			block: []option{
				{name: "base", read: word("score.base")},
				{name: "gamma", read: word("score.gamma")},
				{name: "half_life", read: word("score.half_life")},
				{name: "min_views", read: word("score.min_views")},
				{name: "damping", read: word("score.damping")},
			},
		},
		{name: "boards", read: words("boards")},
		{
			name: "keep", read: entry("keep"),
			usage: "keep needs a period and a number, for example: keep day 35",
		},
	},
	"limit": {
		{name: "by", read: words("by")},
		{name: "ipv4_prefix", read: except("ipv4_prefix", "0", zeroBits)},
		{name: "ipv6_prefix", read: except("ipv6_prefix", "0", zeroBits)},
		{
			name: "max", read: window,
			usage: "invalid max: write for example max 10 per minute, max 5 per 10s burst 20, max 100 per day, max 10 per minute calendar",
		},
		{
			name: "when", read: kinds("when", "list", "channel", "device"),
			usage: "when needs a kind and names: when list|channel|device <name...>",
		},
		{
			name: "bonus", read: entry("bonus"),
			usage: "bonus needs a channel and a number, for example: bonus newsletter 5",
		},
		{name: "shadow", read: toggle("shadow")},
	},
	"bots": {
		{name: "file", read: except("file", "", "the path is empty")},
		{
			name: "allow", read: kinds("allow", "user_agent", "cidr"),
			usage: "allow needs a kind and values: allow user_agent <text...> or allow cidr <range...>",
		},
		{
			name: "deny", read: kinds("deny", "user_agent", "cidr"),
			usage: "deny needs a kind and values: deny user_agent <text...> or deny cidr <range...>",
		},
		{
			name: "count", read: count,
			usage: "count needs a list without pages, and optionally classes of bots: count <list> [<class...>]",
		},
	},
}

// set sets the value at a path. No option may set it twice.
func set(into *configfile.Node, line []*configfile.Node, path string, value *configfile.Node) error {
	at := line[0].Place
	if above, key, found := strings.Cut(path, "."); found {
		into, path = into.Child(at, above), key
	}
	if !into.Set(at, path, value) {
		return fmt.Errorf("duplicate %s", line[0].Text())
	}
	return nil
}

// word reads one argument for each path.
func word(paths ...string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) != 1+len(paths) {
			return errUsage
		}
		for i, path := range paths {
			if err := set(into, line, path, line[1+i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// except is word for an option that refuses one argument, because it would mean
// the default.
func except(path, refused, why string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) == 2 && line[1].Text() == refused {
			return fmt.Errorf("%s: %s", line[0].Text(), why)
		}
		return word(path)(into, line)
	}
}

// id is word for a placeholder.
func id(into *configfile.Node, line []*configfile.Node) error {
	for i, arg := range line[1:] {
		line[1+i] = configfile.Word(arg.Place, longForm(arg.Text()))
	}
	return word("id")(into, line)
}

// words reads one or more arguments.
func words(path string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) < 2 {
			return errUsage
		}
		return set(into, line, path, configfile.List(line[0].Place, line[1:]...))
	}
}

// more is words for an option that may repeat.
func more(key string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) < 2 {
			return errUsage
		}
		into.Child(line[0].Place, key).Append(line[1:]...)
		return nil
	}
}

// toggle reads an option without arguments.
func toggle(path string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) != 1 {
			return errUsage
		}
		return set(into, line, path, configfile.True(line[0].Place))
	}
}

// entry reads a key and its value. It may repeat with other keys.
func entry(table string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) != 3 {
			return errUsage
		}
		if !into.Child(line[0].Place, table).Set(line[0].Place, line[1].Text(), line[2]) {
			return fmt.Errorf("duplicate %s %s", line[0].Text(), line[1].Text())
		}
		return nil
	}
}

// kinds reads a kind, whose plural is the key, and more of its values. It may
// repeat.
func kinds(table string, kinds ...string) reader {
	return func(into *configfile.Node, line []*configfile.Node) error {
		if len(line) < 3 {
			return errUsage
		}
		kind := line[1].Text()
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("%s: %q is not one of %s", line[0].Text(), kind, join(kinds))
		}
		into.Child(line[0].Place, table).Child(line[0].Place, kind+"s").Append(line[2:]...)
		return nil
	}
}

// count reads a list and classes of bots. It may repeat.
func count(into *configfile.Node, line []*configfile.Node) error {
	if len(line) < 2 {
		return errUsage
	}
	c := configfile.Table(line[0].Place)
	c.Set(line[0].Place, "list", line[1])
	c.Set(line[0].Place, "classes", configfile.List(line[0].Place, line[2:]...))
	into.Child(line[0].Place, "count").Append(c)
	return nil
}

// window reads a window of a limit: <count> per <span> [burst <count>] [calendar].
// It may repeat.
func window(into *configfile.Node, line []*configfile.Node) error {
	if len(line) < 4 || line[2].Text() != "per" {
		return errUsage
	}
	at := line[0].Place
	w := configfile.Table(at)
	w.Set(at, "max", line[1])
	w.Set(at, "per", line[3])
	for rest := line[4:]; len(rest) > 0; {
		switch key := rest[0].Text(); {
		case key == "burst" && len(rest) > 1 && w.Set(rest[0].Place, key, rest[1]):
			if rest[1].Text() == "0" {
				return errors.New("burst: 0 would refuse everything")
			}
			rest = rest[2:]
		case key == "calendar" && w.Set(rest[0].Place, key, configfile.True(rest[0].Place)):
			rest = rest[1:]
		default:
			return errUsage
		}
	}
	into.Child(at, "windows").Append(w)
	return nil
}

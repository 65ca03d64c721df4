package ruleset

import "github.com/hotboard/hotboard/hit"

// Target is an item that a request may be a view of.
type Target struct {
	List *List
	// Item is the item's id. It is empty when Reason is set, and when the list
	// has an ID placeholder, which the edge has to evaluate and to check with
	// [hit.ValidID].
	Item string
	// Reason is [BadItem] for a page whose id cannot be an item's; it is not
	// counted. Otherwise it is empty.
	Reason Reason
}

// Match appends to dst the items that a request for path may be a view of, at
// most one for each list, and returns it. The path is the decoded path of the
// URL, as in [net/url.URL.Path]. Where nothing matches, Match allocates nothing.
func (r *Ruleset) Match(dst []Target, path string) []Target {
	for _, l := range r.Lists {
		if len(l.patterns) == 0 {
			if l.ID != "" {
				dst = append(dst, Target{List: l})
			}
			continue
		}
		for _, p := range l.patterns {
			id, ok := p.match(path)
			if !ok {
				continue
			}
			t := Target{List: l}
			if l.ID == "" {
				if hit.ValidID(id) == nil {
					t.Item = id
				} else {
					t.Reason = BadItem
				}
			}
			dst = append(dst, t)
			break
		}
	}
	return dst
}

// List returns the list of a name, or nil.
func (r *Ruleset) List(name string) *List {
	for _, l := range r.Lists {
		if l.Name == name {
			return l
		}
	}
	return nil
}

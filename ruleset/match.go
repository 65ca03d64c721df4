package ruleset

import "github.com/hotboard/hotboard/hit"

// Target is an item that a request may be a view of.
type Target struct {
	List *List
	// Item is the item's id. It is empty if Reason is set, and if the list has an
	// ID placeholder: the edge then evaluates it and checks the value with
	// [hit.ValidID].
	Item string
	// Reason is [BadItem] for a page with an invalid id, which does not count.
	// Otherwise it is empty.
	Reason Reason
}

// Match appends to dst the items that a request for path may be a view of, at
// most one per list, and returns it. The path is the decoded path of the URL, as
// in [net/url.URL.Path]. Match allocates nothing if nothing matches.
func (r *Rules) Match(dst []Target, path string) []Target {
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

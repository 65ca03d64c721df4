package sqlitestore

import (
	"database/sql"
)

// itemKey is an item of a list, identified by its row.
type itemKey struct {
	list int64
	name string
}

// itemIDs caches the rows of items that recent folds touched. A row never
// disappears and never becomes another item's, so the cache stays right. Guarded by
// Store.mu.
type itemIDs struct{ ids map[itemKey]int64 }

// maxItemIDs bounds the memory of itemIDs to some tens of megabytes.
const maxItemIDs = 200_000

// add takes in committed rows.
func (c *itemIDs) add(ids map[itemKey]int64) {
	if c.ids == nil || len(c.ids)+len(ids) > maxItemIDs {
		c.ids = make(map[itemKey]int64, len(ids))
	}
	for k, id := range ids {
		c.ids[k] = id
	}
}

// findItems adds the existing rows of items to found.
func findItems(se *session, list int64, names []string, found map[itemKey]int64) error {
	return se.in("SELECT name, id FROM item WHERE list_id = ? AND name IN", []any{list}, len(names),
		func(i int) any { return names[i] },
		func(r *sql.Rows) error {
			k := itemKey{list: list}
			var id int64
			err := r.Scan(&k.name, &id)
			found[k] = id
			return err
		})
}

// lookup returns the rows of items in order, 0 for an item without one.
func (c *itemIDs) lookup(se *session, list int64, names []string) ([]int64, error) {
	ids := make([]int64, len(names))
	var missing []string
	for i, name := range names {
		if ids[i] = c.ids[itemKey{list, name}]; ids[i] == 0 {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ids, nil
	}
	found := make(map[itemKey]int64, len(missing))
	if err := findItems(se, list, missing, found); err != nil {
		return nil, err
	}
	for i, name := range names {
		if ids[i] == 0 {
			ids[i] = found[itemKey{list, name}]
		}
	}
	c.add(found)
	return ids, nil
}

// itemIDs returns the rows of items in order, and creates missing ones.
func (w *write) itemIDs(list int64, names []string) ([]int64, error) {
	ids := make([]int64, len(names))
	lookup := func() (missing []string) {
		for i, name := range names {
			k := itemKey{list, name}
			if ids[i] = w.known.ids[k]; ids[i] == 0 {
				ids[i] = w.ids[k]
			}
			if ids[i] == 0 {
				missing = append(missing, name)
			}
		}
		return missing
	}
	missing := lookup()
	if len(missing) == 0 {
		return ids, nil
	}
	err := w.insert("INSERT INTO item (list_id, name) VALUES ON CONFLICT (list_id, name) DO NOTHING", 2, len(missing),
		func(args []any, i int) []any { return append(args, list, missing[i]) })
	if err != nil {
		return nil, err
	}
	if err := findItems(w.session, list, missing, w.ids); err != nil {
		return nil, err
	}
	lookup()
	return ids, nil
}

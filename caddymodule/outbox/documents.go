package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/datadir"
	"github.com/hotboard/hotboard/ruleset"
)

// ErrNoDocument means that nobody has the document of rules that hits name.
var ErrNoDocument = errors.New("the document of the rules is missing")

// registered holds the documents of rules under which this process accepts hits.
type registered struct {
	mu     sync.RWMutex
	texts  map[hit.RulesID][]byte
	newest hit.RulesID
}

// Document registers a document of rules, and returns its name: Offer and Append
// take hits whose Rules name a registered document. The one registered last counts
// as the one in force. A document has at most [ruleset.MaxDocumentBytes] bytes.
func (o *Outbox) Document(doc []byte) hit.RulesID {
	id := hit.RulesIDOf(doc)
	r := &o.registered
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = id
	if r.texts[id] == nil {
		r.texts[id] = bytes.Clone(doc)
	}
	return id
}

// text returns a registered document, or nil.
func (r *registered) text(id hit.RulesID) []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.texts[id]
}

// current returns the name of the document registered last.
func (r *registered) current() hit.RulesID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.newest
}

// document is a document of rules in the spool.
type document struct {
	id   hit.RulesID
	path string
	// text is the content of its file. Nil: the file is not there, or was damaged.
	text []byte
	live int // batches of the spool that name it
}

// documents holds the documents that the spool knows. A place refers to one by its
// number. Number 0 stands for the rules of batches that name none.
type documents struct {
	all     []document
	numbers map[hit.RulesID]uint32
}

func newDocuments() documents {
	return documents{all: make([]document, 1), numbers: map[hit.RulesID]uint32{{}: 0}}
}

const (
	// documentDir is the directory of the documents in the spool.
	documentDir = "rules"
	documentExt = ".json"
)

func documentName(id hit.RulesID) string { return filepath.Join(documentDir, id.String()+documentExt) }

// number returns the number of a document. Only the writer may call it, without mu.
func (s *spool) number(id hit.RulesID) uint32 {
	n, ok := s.documents.numbers[id]
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		n = uint32(len(s.documents.all))
		s.documents.all = append(s.documents.all, document{id: id, path: filepath.Join(s.dir, documentName(id))})
		s.documents.numbers[id] = n
	}
	return n
}

// setText records the content of a document's file; nil: there is none.
func (s *spool) setText(n uint32, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents.all[n].text = text
}

// readDocuments reads the documents of earlier processes. It sets damaged ones
// aside.
func (s *spool) readDocuments() error {
	dir := filepath.Join(s.dir, documentDir)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		_, err := datadir.SetAside(time.Now(), dir)
		return err
	}
	_ = datadir.Tidy(dir) // leftover files do no harm
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the documents of rules in the spool: %w", err)
	}
	for _, e := range entries {
		name, isDocument := strings.CutSuffix(e.Name(), documentExt)
		id, err := hit.ParseRulesID(name)
		if !isDocument || err != nil {
			continue
		}
		path := filepath.Join(s.dir, documentName(id))
		if text, err := readDocument(path); err == nil && hit.RulesIDOf(text) == id {
			s.setText(s.number(id), text)
		} else if _, err := datadir.SetAside(time.Now(), path); err != nil {
			return err
		}
	}
	return nil
}

func readDocument(path string) ([]byte, error) {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, ruleset.MaxDocumentBytes+1))
}

// keepDocument makes sure that a document is on disk.
func (s *spool) keepDocument(id hit.RulesID, text []byte) error {
	n := s.number(id)
	if s.documents.all[n].text != nil && !isGone(s.documents.all[n].path) {
		return nil
	}
	if err := s.writeDocument(id, text); err != nil {
		return err
	}
	s.setText(n, text)
	return nil
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func (s *spool) writeDocument(id hit.RulesID, text []byte) error {
	err := datadir.Make(filepath.Join(s.dir, documentDir))
	if err == nil {
		err = s.writeFile(documentName(id), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
	}
	if err == nil {
		err = datadir.Sync(s.dir) // the process that created the directory may have died before it did this
	}
	if err != nil {
		return fmt.Errorf("writing the document of the rules to the spool: %w", err)
	}
	return nil
}

// restoreDocuments writes removed documents again, and returns whether any were
// gone.
func (s *spool) restoreDocuments() (restored bool, err error) {
	for _, d := range s.documents.all {
		if d.text == nil || !isGone(d.path) {
			continue
		}
		restored = true
		if err := s.writeDocument(d.id, d.text); err != nil {
			return restored, err
		}
	}
	return restored, nil
}

// deleteDocuments deletes the documents that no batch names, except one.
func (s *spool) deleteDocuments(except hit.RulesID) error {
	saved := false
	for n, d := range s.documents.all {
		if d.text == nil || d.live > 0 || d.id == except {
			continue
		}
		if !saved {
			// Otherwise a power cut could bring back the batches without it.
			if err := s.saveState(true); err != nil {
				return err
			}
			saved = true
		}
		if err := os.Remove(d.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("deleting a document of rules that no batch names: %w", err)
		}
		s.setText(uint32(n), nil)
	}
	return nil
}

// held returns the documents in the spool.
func (s *spool) held() (all []document) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, d := range s.documents.all {
		if d.text != nil {
			all = append(all, d)
		}
	}
	return all
}

// missingDocuments returns the documents that batches name and that the spool
// lacks.
func (s *spool) missingDocuments() (all []document) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, d := range s.documents.all[1:] {
		if d.text == nil && d.live > 0 {
			all = append(all, d)
		}
	}
	return all
}

// named returns the documents that batches of a lane name.
func (s *spool) named(id laneID, from, to uint64) (all []document) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.lanes[id]
	if c == nil {
		return nil
	}
	last := uint32(0)
	for seq := max(from, c.low); seq <= to && seq < c.end(); seq++ {
		n := c.places[seq-c.low].document
		if n == last || n == 0 {
			continue
		}
		last = n
		d := s.documents.all[n]
		if !slices.ContainsFunc(all, func(other document) bool { return other.id == d.id }) {
			all = append(all, d)
		}
	}
	return all
}

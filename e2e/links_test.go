package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Links to other files of the repository have targets.
func TestDocumentedLinks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, file := range append(files, "../README.md") {
		for _, m := range regexp.MustCompile(`\]\(([^)\s]*)\)`).FindAllStringSubmatch(readText(t, file), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, ":") {
				continue // an external link
			}
			links++
			target := filepath.Join(filepath.Dir(file), path)
			if path == "" {
				target = file
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", file, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readText(t, target)), anchor) {
				t.Errorf("%s: %s has no such heading", file, m[1])
			}
		}
	}
	if links == 0 {
		t.Error("no link was found")
	}
}

// anchors returns GitHub's anchors of the headings of a document.
func anchors(text string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		heading := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found = append(found, strings.ReplaceAll(heading, " ", "-"))
	}
	return found
}

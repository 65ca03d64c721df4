package bots

import "strings"

// word is a word in the names of programs that identify themselves.
type word struct {
	text, class string
	// from and to mean that no letter precedes the word, or follows it.
	from, to bool
	// tools means that names of apps contain the word too, so that it counts only
	// in User-Agents of other devices than phones.
	tools bool
	// unless lists names of browsers and phones that contain the word.
	unless []string
}

// words is in order of precedence.
func words() []word {
	return []word{
		{text: "headless", class: "headless_browser"},
		{text: "phantomjs", class: "headless_browser"},
		{text: "crawl", class: "crawler"},
		{text: "spider", class: "crawler"},
		{text: "robot", class: "crawler"},
		{text: "bots", class: "crawler", to: true},
		{text: "bot", class: "crawler", to: true, unless: []string{"cubot"}}, // makes phones
		{text: "scrap", class: "crawler"},
		{text: "slurp", class: "crawler"},
		{text: "harvest", class: "crawler"},
		{text: "indexer", class: "crawler"},
		{text: "extractor", class: "crawler"},
		{text: "grabber", class: "crawler"},
		{text: "fetch", class: "crawler"},
		{text: "archiv", class: "archiver"},
		{text: "uptime", class: "monitor"},
		{text: "synthetic", class: "monitor"},
		{text: "healthcheck", class: "monitor"},
		{text: "unfurl", class: "link_preview"},
		{text: "validator", class: "seo_tool"},
		{text: "collector", class: "crawler", tools: true},
		{text: "monitor", class: "monitor", tools: true},
		{text: "watcher", class: "monitor", tools: true},
		{text: "verify", class: "monitor", tools: true},
		{text: "checker", class: "seo_tool", tools: true},
		{text: "inspector", class: "seo_tool", tools: true},
		{text: "audit", class: "seo_tool", tools: true},
		{text: "analyzer", class: "seo_tool", tools: true},
		{text: "optimizer", class: "seo_tool", tools: true},
		{text: "preview", class: "link_preview", tools: true},
		{text: "thumbnail", class: "link_preview", tools: true},
		{text: "screenshot", class: "headless_browser", tools: true},
		// FeedReader/2.0 is a desktop program for people.
		{text: "feed", class: "feed_reader", from: true, tools: true, unless: []string{"feedreader/"}},
		{text: "rss", class: "feed_reader", to: true, tools: true},
		{text: "podcast", class: "feed_reader", tools: true},
		{text: "scan", class: "scanner", to: true, tools: true},
		{text: "scanner", class: "scanner", tools: true},
		{text: "scanning", class: "scanner", tools: true},
		{text: "security", class: "scanner", tools: true},
		{text: "-google", class: "search_engine", to: true, tools: true},
		{text: "http", class: "http_library", tools: true, unless: []string{"libhttp/", "http pgdl", "https)", "http://", "https://"}},
	}
}

// find reports whether a User-Agent, in lower case, contains the word.
func (w *word) find(lower string) bool {
	for from := 0; ; {
		i := strings.Index(lower[from:], w.text)
		if i < 0 {
			return false
		}
		begin, end := from+i, from+i+len(w.text)
		from = end
		switch {
		case w.from && begin > 0 && isLetter(lower[begin-1]):
		case w.to && end < len(lower) && isLetter(lower[end]):
		case w.excused(lower, begin):
		default:
			return true
		}
	}
}

// excused reports whether the word at an index is part of a word in unless.
func (w *word) excused(lower string, begin int) bool {
	for _, u := range w.unless {
		if at := begin - strings.Index(u, w.text); at >= 0 && strings.HasPrefix(lower[at:], u) {
			return true
		}
	}
	return false
}

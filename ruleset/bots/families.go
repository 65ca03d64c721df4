package bots

// family is a class of programs known by name.
type family struct {
	class string
	// names are separated by commas and match as words, in any case: a letter or
	// digit must not precede one, and a letter must not follow. A name with a
	// leading ^ matches only at the beginning of the User-Agent; letters may
	// follow one with a trailing *. Apps or browsers also use a name with a
	// trailing ?, so it only sets the class of a bot found by another rule.
	names string
}

// families returns the programs known by name. Most programs that identify
// themselves need no entry, since a word such as "bot" or an address reveals
// them. An entry sets the class, or covers a program that otherwise looks like a
// browser. If a User-Agent has several names, the first family wins, so
// libraries, which other programs use, come late.
func families() []family {
	return []family{
		{"ai_crawler", `GPTBot, ChatGPT-User*, ChatGPT?, OAI-*, OpenAI?, ClaudeBot, Claude-*, Anthropic*, PerplexityBot, Perplexity-User,
			PerplexityUser, CCBot, Bytespider, TikTokSpider, Google-Extended, Google-CloudVertexBot, Google-NotebookLM,
			Google-Agent, GoogleAgent-*, Google-Gemini*, Gemini-Deep*, GoogleOther*, Meta-ExternalAgent, Meta-WebIndexer,
			FacebookBot, Applebot-Extended, Amazonbot, Amzn-*, Amazon-Bedrock*, Amazon-QBusiness, AmazonBuyForMe, NovaAct,
			bedrockbot, cohere-*, MistralAI-*, DuckAssistBot, YouBot, Diffbot, AI2Bot*, Timpibot, Omgili*, Webzio*,
			ImagesiftBot, img2dataset, PanguBot, ChatGLM-Spider, DeepSeekBot, PhindBot, iAskBot, iaskspider, kagi-fetcher,
			Kangaroo Bot, LinerBot, LinkupBot, TavilyBot, FirecrawlAgent, Crawl4AI, ApifyBot, ApifyWebsiteContentCrawler,
			AzureAI-*, Bigsur.ai, Cloudflare-AutoRAG, Cotoyogi, EchoboxBot, FriendlyCrawler, ICC-Crawler, laion-*,
			Manus-User, Panscient, QuillBot, SBIntuitionsBot, ShapBot, SidetradeBot, Thinkbot, VelenPublicWebCrawler, Andibot,
			aiHitBot, AwarioBot, AwarioSmartBot, Factset_spyderbot, semantic-visions, netEstate, The Knowledge AI, newsai,
			Spawning-AI, Poggio-*, AISearchBot, GrokBot, xAI-Bot, LangChain, LlamaIndex, AutoGPT, JinaBot, Devin?, Trae?`},
		{"search_engine", `Googlebot*, AdsBot-Google*, Mediapartners-Google, APIs-Google, Google-*, GoogleProducer,
			GoogleAssociationService, Storebot-Google, Google Favicon, Google Web Preview, Google Search Console,
			Google Page Speed, DuplexWeb-Google, AppEngine-Google, googleweblight, bingbot, BingPreview, BingSiteAuth,
			adidxbot, msnbot, Slurp, Y!J-*, Yahoo-*, YahooSeeker, DuckDuckBot, DuckDuckGo-Favicons-Bot, Baiduspider*,
			baidu Transcoder, YandexBot, YandexImages, YandexMobileBot, YandexMetrika, YandexRenderResourcesBot,
			YandexAccessibilityBot, YandexDirect, Sogou web spider, Sogou inst spider, Sogou pic spider, Sosospider,
			360Spider, HaoSouSpider, YisouSpider, ToutiaoSpider, EasouSpider, PetalBot, AspiegelBot, Applebot, SeznamBot,
			coccocbot-*, coccoc?, Yeti?, NaverBot, Daumoa*, Daum, Qwantify, Qwantbot*, Exabot, MojeekBot, Cliqzbot, BraveBot,
			StractBot, Mail.RU_Bot, IstellaBot, Gigabot, Gigablast*, Nutch*, yacybot, Teoma, Ask Jeeves, ichiro, ZyBorg,
			FAST-WebCrawler, SeekportBot, SputnikBot, Swisscows, Owler, larbin*, IndeedBot, ScoutJet, Wotbox, psbot*,
			Google?, Yandex?, Baidu?, Sogou?, Bing?, Yahoo?`},
		{"seo_tool", `AhrefsBot, AhrefsSiteAudit, Semrush*, MJ12bot, DotBot, rogerbot, BLEXBot, Barkrowler, DataForSeoBot,
			serpstatbot, SEOkicks*, SISTRIX, Screaming Frog, OnCrawl, Botify, Sitebulb, DeepCrawl, Siteimprove*,
			SiteCheckerBot*, RyteBot, Seobility, linkdexbot*, LinkpadBot, XoviBot, Xenu Link Sleuth, Netpeak*,
			BacklinkCrawler, HubSpot, seoscanners, ContentKing, Searchmetrics*, proximic, ADmantX, GrapeshotCrawler,
			peer39_crawler, BrandVerity, Datanyze, BuiltWith, Wappalyzer, Dataprovider, LinkCheck*, LinkWalker, LinkTiger,
			W3C_Validator, W3C-*, W3C_*, Validator.nu, CSSCheck, Chrome-Lighthouse, Lighthouse, PageSpeed, GTmetrix,
			PingdomPageSpeed, DareBoost, PTST, WebPageTest, SpeedCurve, SEO?`},
		{"feed_reader", `Feedfetcher-Google, Feedspot, Superfeedr, BazQux, CommaFeed, FlipboardProxy, FlipboardRSS,
			FreshRSS, Liferea, MagpieRSS, Miniflux, Netvibes, QuiteRSS, RSSOwl, SimplePie, theoldreader.com, Tiny Tiny RSS,
			UniversalFeedParser, Windows-RSS-Platform, Apple-PubSub, Akregator, newsbeuter, newsboat, PaperLiBot,
			PocketParser, feeder.co, Blogtrottr, Feedbin?, Feedly*?, FeedBurner?, Inoreader*?, NewsBlur?, NetNewsWire?,
			Newsify?, Reeder?, ReadKit?, Bloglines?, Bloglovin?, Overcast?, PocketCasts?, AntennaPod?, Podcasts?, Gwene?,
			Hatena?, Instapaper?, NextCloud-News?, Fever?, Flipboard?`},
		{"link_preview", `facebookexternalhit, facebookcatalog, facebookplatform, Facebot, facebookscraper, Meta-External*,
			Twitterbot, TweetmemeBot, LinkedInBot, Slackbot*, Slack-ImgProxy, Discordbot, TelegramBot, ^WhatsApp,
			SkypeUriPreview, redditbot, Pinterestbot, vkShare, OdklBot, Snap URL Preview Service, SnapURLPreview, Iframely,
			Embedly, KeybaseBot, GroupMeBot, Linespider, kakaotalk-scrap, Yahoo Link Preview, YahooMailProxy,
			GoogleImageProxy, MicrosoftPreview, Valve/Steam, MetaInspector, bitlybot, github-camo, TwilioProxy,
			OpenGraph*?, Mastodon*?, Friendica?, Pleroma?, Misskey?, Akkoma?, Lemmy?, GoToSocial?, Bluesky?, Synapse?,
			Mattermost*?, Rocket.Chat?, Zulip*?, Discourse?, Tumblr?, Pinterest?, Notion?, Viber?, LinkedInApp?, Line?`},
		{"monitor", `UptimeRobot, Uptime, Pingdom*, StatusCake, Site24x7, NewRelicPinger, Datadog, DatadogSynthetics,
			Catchpoint, Dotcom-Monitor, DMBrowser*, GomezAgent, RuxitSynthetic, AlertSite, DejaClick, Rigor, YottaaMonitor,
			Nagios, check_http, Zabbix, Icinga, PRTG, Prometheus, kube-probe, GoogleHC, ELB-HealthChecker, Amazon-Route53*,
			Better Uptime, BetterStack, Freshping, HetrixTools, updown.io, Checkly, Cronitor, OhDear, Montastic, WatchMouse,
			HTTPMon, collectd, phpservermon, LogicMonitor, ThousandEyes, Ghost Inspector, GhostInspector, Visualping,
			ChangeDetection*, urlwatch, google_partner_monitoring, CopperEgg, SSL Labs, Sentry?, Monit?, Munin?, Varnish?`},
		{"scanner", `Nmap, masscan, zgrab, Nikto, sqlmap, Nessus, Acunetix, Netsparker, Invicti, w3af, WPScan, Nuclei, DirBuster,
			gobuster, ffuf, wfuzz, feroxbuster, Arachni, burpcollaborator, OpenVAS, CensysInspect, Shodan, Expanse, Palo Alto Networks,
			InternetMeasurement, Netcraft*, l9tcpid, l9explore, LeakIX, SecurityTrails, Jorgee, Morfeus*, ZmEu, Detectify,
			Probely, Qualys, ClamAV, Foregenix, Sucuri, Wordfence, Stretchoid, testssl, sslyze, Hydra?`},
		{"archiver", `ia_archiver, archive.org_bot, Archive-It, ArchiveBot, ArchiveBox, ArchiveTeam, heritrix, special_archiver,
			SiteSucker, HTTrack, WebCopier, WebZIP, Offline Explorer, Teleport Pro, CyotekWebCopy, WebCapture, WebReaper,
			WebStripper, wpull, Arquivo-*, BnFBot, LinkArchiver, browsertrix, Wayback?`},
		{"headless_browser", `HeadlessChrome, HeadlessEdg, Headless, PhantomJS, phantomas, SlimerJS, CasperJS, Puppeteer, Playwright,
			Selenium, WebDriver, Cypress, HtmlUnit, jsdom, TestCafe, Browsershot, wkhtmltopdf, wkhtmltoimage, webkit2png, WeasyPrint,
			Rendertron, Prerender, HappyDOM, Lightpanda, Browserless, BrowserStack, Applitools, PagePeeker, splash`},
		{"http_library", `curl, nscurl, libcurl*, PycURL, Wget*, ^Python, python-*, aiohttp, httpx, urllib*, libwww-perl, lwp-*, ^LWP, Go-http-client,
			package http, go-resty, colly, node-fetch, ^node, ^node.js, undici, axios, superagent, request-promise, ^Deno, ^Bun,
			okhttp, Apache-HttpClient, Apache-HttpAsyncClient, Commons-HttpClient, HttpClient, ^Java, Jersey, Jetty, ^AHC, Netty,
			Ktor?, Unirest*, RestSharp, PostmanRuntime, Insomnia, HTTPie, ^PHP, ^PHP-Curl-Class, GuzzleHttp, Guzzle, Symfony, Zend_Http_Client,
			HTTP_Request, HTTP_Request2, Snoopy, ^WordPress, ^Drupal, Typhoeus, Faraday, Mechanize, WWW-Mechanize, ^Ruby, http.rb, Excon,
			HTTParty, reqwest, ureq, ^Dart, Alamofire, AFNetworking, WinHTTP, WinInet, WindowsPowerShell, PowerShell,
			Microsoft-CryptoAPI, Microsoft BITS, Microsoft URL Control, Indy Library, MS Web Services Client Protocol, lua-resty-http, hackney, http-kit, clj-http, grpc-*,
			^Perl, Mojolicious, AnyEvent*, HTTP-Tiny, HTTP::Tiny, aria2, lftp, Scrapy, trafilatura, crawler4j, jsoup, gvfs, ApacheBench,
			wrk, JMeter, cpp-httplib, libsoup, ^got, sindresorhus/got`},
		{"crawler", `TurnitinBot, iThenticate, EmailSiphon, EmailCollector, EmailWolf, ExtractorPro, grub-client, magpie-crawler,
			Radian6, Evidon, Amazon CloudFront, Sparkler, Genieo, ips-agent, evc-batch, 80legs`},
	}
}

module github.com/slimwire/swp/tools/site

go 1.26.6

require (
	github.com/yuin/goldmark v1.8.6
	golang.org/x/mod v0.43.0
)

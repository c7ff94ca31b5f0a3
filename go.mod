module github.com/slimwire/swp

go 1.26.6

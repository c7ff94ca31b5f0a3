package main

var mcp []vector

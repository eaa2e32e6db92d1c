// Search from a folder: browsers start no workers for files, so that a hidden frame does a worker's work.
// The name is the one that mkdocs-material looks for; with it, nothing is fetched from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.frame = frame.contentWindow
      this.frame.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      this.ready = new Promise(loaded => {
        const script = this.frame.document.createElement("script")
        script.src = url
        script.onload = loaded
        this.frame.document.body.appendChild(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.frame.frameElement.remove()
    }
  }
}

document.getElementById("main").dataset.loaded = "yes";

const LIBRARY = JSON.parse(document.getElementById("library").textContent);
